package kafkatxn

import "testing"

func TestVarint(t *testing.T) {
	for n, want := range map[int]int{0: 1, 63: 1, 64: 2, 8191: 2, 8192: 3, 1<<20 - 1: 3, 1 << 20: 4} {
		if got := varint(n); got != want {
			t.Errorf("varint(%d) = %d bytes, want %d", n, got, want)
		}
	}
}
