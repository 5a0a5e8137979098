// Spark Streaming's own state map, for the measurements of state_core.py: one command for each line of input.
//
//   java StatePeer KEYS ROWS number|text
//
// Commands, numbers, answers, keys, amounts and digests are those of native/core/benches/state. An answer is a line of
// `name=value`. Times are nanoseconds of this thread, without garbage collection.

import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.ObjectStreamClass;
import java.io.Serializable;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.Arrays;
import org.apache.spark.streaming.util.OpenHashMapBasedStateMap;
import org.apache.spark.streaming.util.StateMap;
import scala.Option;
import scala.Tuple3;
import scala.collection.Iterator;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;

public final class StatePeer {
  private static final int DEPTH = 19;
  private static final ThreadMXBean CLOCK = ManagementFactory.getThreadMXBean();

  record Total(long count, double sum) implements Serializable {}

  private final long keys;
  private final int rows;
  private final boolean text;
  private final StateMap<Object, Total> base;
  private StateMap<Object, Total> deep;
  private byte[] written;

  private StatePeer(long keys, int rows, boolean text) {
    this.keys = keys;
    this.rows = rows;
    this.text = text;
    ClassTag<Object> keyTag = ClassTag$.MODULE$.apply(text ? String.class : Object.class);
    ClassTag<Total> totalTag = ClassTag$.MODULE$.apply(Total.class);
    base = new OpenHashMapBasedStateMap<>(64, 20, keyTag, totalTag);
    for (long key = 0; key < keys; key++) {
      base.put(key(key), new Total(1, key % 1000), key);
    }
  }

  private static long mix(long number) {
    long x = number + 0x9e3779b97f4a7c15L;
    x = (x ^ (x >>> 30)) * 0xbf58476d1ce4e5b9L;
    x = (x ^ (x >>> 27)) * 0x94d049bb133111ebL;
    return x ^ (x >>> 31);
  }

  private Object key(long number) {
    long key = mix(number);
    return text ? String.format("%016x", key) : (Object) key;
  }

  private long[] numbers(long batch) {
    long[] numbers = new long[rows];
    for (int row = 0; row < rows; row++) {
      numbers[row] = Long.remainderUnsigned(mix(((batch + 1) << 32) | row), keys);
    }
    return numbers;
  }

  private Object[] batch(long number) {
    return Arrays.stream(numbers(number)).mapToObj(this::key).toArray();
  }

  private static void update(StateMap<Object, Total> map, Object[] batch) {
    for (int row = 0; row < batch.length; row++) {
      Option<Total> found = map.get(batch[row]);
      long count = found.isEmpty() ? 0 : found.get().count();
      double sum = found.isEmpty() ? 0 : found.get().sum();
      map.put(batch[row], new Total(count + 1, sum + row % 100), 1);
    }
  }

  private long digest(StateMap<Object, Total> map, long batch) {
    long digest = 0;
    long[] numbers = Arrays.stream(numbers(batch)).sorted().distinct().toArray();
    for (long number : numbers) {
      Total total = map.get(key(number)).get();
      digest += mix(mix(number) ^ mix(total.count() ^ mix(Double.doubleToRawLongBits(total.sum()))));
    }
    return digest;
  }

  private static String answer(long start) {
    return "ns=" + (CLOCK.getCurrentThreadCpuTime() - start) + " ";
  }

  private String run(String command, long number) throws Exception {
    switch (command) {
      case "update": {
        Object[] batch = batch(number);
        long start = CLOCK.getCurrentThreadCpuTime();
        StateMap<Object, Total> next = base.copy();
        update(next, batch);
        return answer(start) + "digest=" + Long.toUnsignedString(digest(next, number));
      }
      case "get": {
        if (deep == null) {
          deep = base;
          for (int version = 0; version < DEPTH; version++) {
            deep = deep.copy();
            update(deep, batch(version));
          }
        }
        Object[] batch = batch(1000 + number);
        long found = 0;
        long start = CLOCK.getCurrentThreadCpuTime();
        for (Object key : batch) {
          found += deep.get(key).isEmpty() ? 0 : 1;
        }
        return answer(start) + "digest=" + found;
      }
      case "due": {
        long found = 0;
        long start = CLOCK.getCurrentThreadCpuTime();
        Iterator<Tuple3<Object, Total, Object>> due = base.getByTime(rows);
        while (due.hasNext()) {
          due.next();
          found++;
        }
        return answer(start) + "rows=" + found;
      }
      case "write": {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream(1 << 20);
        long start = CLOCK.getCurrentThreadCpuTime();
        try (ObjectOutputStream stream = new ObjectOutputStream(bytes)) {
          stream.writeObject(base);
        }
        String answer = answer(start);
        written = bytes.toByteArray();
        return answer + "bytes=" + written.length;
      }
      case "open": {
        long start = CLOCK.getCurrentThreadCpuTime();
        try (ObjectInputStream stream = new Here(new ByteArrayInputStream(written))) {
          stream.readObject();
        }
        return answer(start);
      }
      case "delta": {
        // A map of only the batch's keys, with counters: the least that a delta contains.
        StateMap<Object, Integer> counts =
            new OpenHashMapBasedStateMap<>(
                64, 20, ClassTag$.MODULE$.<Object>apply(Object.class), ClassTag$.MODULE$.<Integer>apply(Integer.class));
        for (long key = 0; key < number; key++) {
          counts.put(key(key), 1, key);
        }
        ByteArrayOutputStream bytes = new ByteArrayOutputStream(1 << 20);
        try (ObjectOutputStream stream = new ObjectOutputStream(bytes)) {
          stream.writeObject(counts);
        }
        return "bytes=" + bytes.size();
      }
      case "heap": {
        System.gc();
        Runtime runtime = Runtime.getRuntime();
        return "bytes=" + (runtime.totalMemory() - runtime.freeMemory());
      }
      default:
        throw new IllegalArgumentException(command);
    }
  }

  /** Finds the classes of this program. */
  private static final class Here extends ObjectInputStream {
    Here(ByteArrayInputStream bytes) throws java.io.IOException {
      super(bytes);
    }

    @Override
    protected Class<?> resolveClass(ObjectStreamClass description) throws ClassNotFoundException, java.io.IOException {
      try {
        return Class.forName(description.getName(), false, StatePeer.class.getClassLoader());
      } catch (ClassNotFoundException missing) {
        return super.resolveClass(description);
      }
    }
  }

  public static void main(String[] given) throws Exception {
    StatePeer peer = new StatePeer(Long.parseLong(given[0]), Integer.parseInt(given[1]), given[2].equals("text"));
    System.out.println("ready=1");
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String[] words = line.split(" ");
      System.out.println(peer.run(words[0], Long.parseLong(words[1])));
    }
  }
}
