package testservice

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
)

// Launch starts a server's process or container; the caller awaits it.
func Launch(ctx context.Context, via Via, container func() ContainerSpec, process func() (ProcessSpec, error)) (Service, error) {
	if via == ViaContainer {
		c, err := StartContainer(ctx, container())
		if err != nil {
			return nil, err // a nil *Container is not a nil Service
		}
		return c, nil
	}
	spec, err := process()
	if err != nil {
		return nil, err
	}
	p, err := StartProcess(ctx, spec)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Owner is whom a server runs as that must not be root: us, or the first of these users
// that exists when we are root.
func Owner(users ...string) (uid, gid int, err error) {
	if os.Getuid() != 0 {
		return os.Getuid(), os.Getgid(), nil
	}
	var missing error
	for _, name := range users {
		u, err := user.Lookup(name)
		if err != nil {
			missing = errors.Join(missing, err)
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		return uid, gid, errors.Join(err1, err2)
	}
	return 0, 0, fmt.Errorf("the server does not run as root: %w", missing)
}
