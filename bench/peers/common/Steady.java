import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.concurrent.atomic.LongAdder;

/**
 * Measures the steady part of a run, the last two thirds of its records, and prints
 * it as the one line of JSON that the bench program reads. A thread looks at the
 * counter every few milliseconds, so that counting costs the work next to nothing.
 */
final class Steady extends Thread {
    private final String work;
    private final LongAdder seen;
    private final long total;
    private final OperatingSystemMXBean os = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    private long wallFrom, cpuFrom, countFrom, wallTo, cpuTo;

    Steady(String work, LongAdder seen, long total) {
        this.work = work;
        this.seen = seen;
        this.total = total;
        setDaemon(true);
        start();
    }

    @Override
    public void run() {
        try {
            while (seen.sum() < total) {
                if (wallFrom == 0 && seen.sum() >= total / 3) {
                    wallFrom = System.nanoTime();
                    cpuFrom = os.getProcessCpuTime();
                    countFrom = seen.sum();
                }
                Thread.sleep(5);
            }
        } catch (InterruptedException e) {
            return;
        }
        wallTo = System.nanoTime();
        cpuTo = os.getProcessCpuTime();
    }

    /** Waits for the last record and prints the measurement. */
    void print() throws Exception {
        join();
        double records = total - countFrom;
        System.out.printf(Locale.ROOT, "{\"work\":\"%s\",\"records\":%d,\"cpu_ns_per_record\":%.1f,\"records_per_second\":%.0f,\"peak_mib\":%d}%n",
            work, total, (cpuTo - cpuFrom) / records, records * 1e9 / (wallTo - wallFrom), peakMiB());
    }

    private static long peakMiB() throws Exception {
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("VmHWM:")) {
                return Long.parseLong(line.replaceAll("[^0-9]", "")) / 1024;
            }
        }
        return 0;
    }
}
