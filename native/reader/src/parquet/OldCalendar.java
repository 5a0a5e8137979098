import java.time.zone.ZoneOffsetTransition;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TimeZone;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.spark.sql.catalyst.util.RebaseDateTime;

/**
 * Writes old_calendar.txt: by how many seconds Spark moves times of its old calendar in each time zone of Java.
 *
 * <p>Run in the root folder: java -cp "$(.venv/bin/python -c 'import pyspark; print(pyspark.__path__[0])')/jars/*"
 * native/reader/src/parquet/OldCalendar.java > native/reader/src/parquet/old_calendar.txt. It takes two minutes.
 *
 * <p>java.util.TimeZone, in which the times were written, knows no mean times of places before 1900, and java.time, in which
 * they are read, does. Spark has kept the zones as they were known in 2020, and Java has corrected some since. So the program
 * asks Spark's function at and around every change of a zone, and every six hours. A line of the result has the offset of a
 * zone in the old calendar, the seconds to add before the first change, then each change with the seconds to add from it on,
 * and the names of the zones that have all this in common.
 */
class OldCalendar {
    static final long GREGORIAN = -12_219_292_800L; // 1582-10-15
    static final long END = -2_208_902_400L; // 1900-01-02
    static final long DAY = 86_400;

    public static void main(String[] arguments) {
        Map<String, List<String>> lines = new TreeMap<>();
        for (String zone : TimeZone.getAvailableIDs()) {
            lines.computeIfAbsent(line(zone), missing -> new ArrayList<>()).add(zone);
        }
        lines.forEach((line, zones) -> System.out.println(line + " " + String.join(" ", zones.stream().sorted().toList())));
    }

    /** Return what is stored of a zone. */
    static String line(String zone) {
        long start = change(zone, GREGORIAN - 2 * DAY, GREGORIAN + 2 * DAY);
        StringBuilder line = new StringBuilder().append(GREGORIAN - start);
        line.append(' ').append(added(zone, start - 1) + 10 * DAY);
        long before = start;
        if (added(zone, start) != added(zone, start - 1) + 10 * DAY) {
            line.append(' ').append(start).append(' ').append(added(zone, start));
        }
        for (long probe : probes(zone, start)) {
            while (added(zone, probe) != added(zone, before)) {
                before = change(zone, before, probe);
                line.append(' ').append(before).append(' ').append(added(zone, before));
            }
            before = probe;
        }
        if (added(zone, END) != 0) {
            throw new IllegalStateException(zone + " has a mean time after 1900");
        }
        return line.toString();
    }

    static TreeSet<Long> probes(String zone, long start) {
        TreeSet<Long> probes = new TreeSet<>();
        for (long probe = start; probe < END; probe += DAY / 4) {
            probes.add(probe);
        }
        for (ZoneOffsetTransition change : TimeZone.getTimeZone(zone).toZoneId().getRules().getTransitions()) {
            for (long probe = change.toEpochSecond() - 2 * DAY; probe < change.toEpochSecond() + 2 * DAY; probe += 300) {
                if (probe > start && probe < END) {
                    probes.add(probe);
                }
            }
        }
        probes.add(END);
        return probes;
    }

    /** Return the first second after `low`, up to `high`, at which another number of seconds is added than at `low`. */
    static long change(String zone, long low, long high) {
        long before = low;
        long after = high;
        while (after - before > 1) {
            long middle = before + (after - before) / 2;
            if (added(zone, middle) == added(zone, low)) {
                before = middle;
            } else {
                after = middle;
            }
        }
        return after;
    }

    static long added(String zone, long second) {
        return RebaseDateTime.rebaseJulianToGregorianMicros(zone, second * 1_000_000) / 1_000_000 - second;
    }
}
