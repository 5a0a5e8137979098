// `mapWithState` of Spark Streaming under a clock of the test's own: the program of `track.py`, one command after another.
//
// An interval is a micro-batch of a second. Timeouts are looked for at checkpoints alone, so there is one in each.

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedList;
import java.util.List;
import java.util.Queue;
import org.apache.spark.SparkContext;
import org.apache.spark.api.java.JavaPairRDD;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.java.Optional;
import org.apache.spark.api.java.function.Function3;
import org.apache.spark.api.java.function.Function4;
import org.apache.spark.streaming.Durations;
import org.apache.spark.streaming.State;
import org.apache.spark.streaming.StateSpec;
import org.apache.spark.streaming.Time;
import org.apache.spark.streaming.api.java.JavaMapWithStateDStream;
import org.apache.spark.streaming.api.java.JavaPairDStream;
import org.apache.spark.streaming.api.java.JavaStreamingContext;
import org.apache.spark.util.ManualClock;
import scala.Tuple2;

public final class Track {
  /** Of each micro-batch: what is emitted, "e" before key and text, then the states after it, "s" before key and value. */
  public static List<List<List<String>>> run(
      SparkContext context, String folder, List<List<List<String>>> batches, List<List<Object>> initial,
      long timeoutMs, int partitions, String form) throws InterruptedException {
    JavaStreamingContext streaming =
        new JavaStreamingContext(JavaSparkContext.fromSparkContext(context), Durations.seconds(1));
    try {
      streaming.checkpoint(folder);
      List<List<List<String>>> found = new ArrayList<>();
      Queue<JavaRDD<Tuple2<String, String>>> queue = new LinkedList<>();
      for (List<List<String>> rows : batches) {
        List<Tuple2<String, String>> pairs = new ArrayList<>();
        rows.forEach(row -> pairs.add(new Tuple2<>(row.get(0), row.get(1))));
        queue.add(streaming.sparkContext().parallelize(pairs, 1));
      }
      JavaPairDStream<String, String> says = JavaPairDStream.fromJavaDStream(streaming.queueStream(queue, true));
      JavaMapWithStateDStream<String, String, Long, Tuple2<String, String>> tracked =
          says.mapWithState(specified(streaming.sparkContext(), initial, timeoutMs, partitions, form));
      tracked.checkpoint(Durations.seconds(1));
      tracked.foreachRDD(emitted -> {
        List<List<String>> lines = new ArrayList<>();
        emitted.collect().forEach(pair -> lines.add(Arrays.asList("e", pair._1(), pair._2())));
        synchronized (found) {
          found.add(lines);
        }
      });
      tracked.stateSnapshots().foreachRDD(states -> {
        synchronized (found) {
          List<List<String>> lines = found.get(found.size() - 1);
          states.collect().forEach(pair -> lines.add(Arrays.asList("s", pair._1(), String.valueOf(pair._2()))));
          lines.add(Arrays.asList("end"));
        }
      });
      streaming.start();
      ManualClock clock = (ManualClock) streaming.ssc().scheduler().clock();
      for (int number = 0; number < batches.size(); number++) {
        clock.advance(1000);
        await(streaming, found, number);
      }
      return found;
    } finally {
      streaming.stop(false, false);
    }
  }

  private static void await(JavaStreamingContext streaming, List<List<List<String>>> found, int number)
      throws InterruptedException {
    while (true) {
      synchronized (found) {
        if (found.size() > number && found.get(number).contains(Arrays.asList("end"))) {
          found.get(number).remove(Arrays.asList("end"));
          return;
        }
      }
      streaming.awaitTerminationOrTimeout(5); // raises what the job raised
    }
  }

  private static StateSpec<String, String, Long, Tuple2<String, String>> specified(
      JavaSparkContext context, List<List<Object>> initial, long timeoutMs, int partitions, String form) {
    StateSpec<String, String, Long, Tuple2<String, String>> spec =
        form.equals("simple") ? StateSpec.function(SIMPLE) : StateSpec.function(ADVANCED);
    spec = spec.numPartitions(partitions);
    if (timeoutMs > 0) {
      spec = spec.timeout(Durations.milliseconds(timeoutMs));
    }
    if (!initial.isEmpty()) {
      List<Tuple2<String, Long>> states = new ArrayList<>();
      initial.forEach(row -> states.add(new Tuple2<>((String) row.get(0), ((Number) row.get(1)).longValue())));
      spec = spec.initialState(JavaPairRDD.fromJavaRDD(context.parallelize(states, 1)));
    }
    return spec;
  }

  private static final Function3<String, Optional<String>, State<Long>, Tuple2<String, String>> SIMPLE =
      (key, say, state) -> new Tuple2<>(key, said(-1, key, say.orNull(), state));

  private static final Function4<Time, String, Optional<String>, State<Long>, Optional<Tuple2<String, String>>> ADVANCED =
      (time, key, say, state) -> {
        String text = said(time.milliseconds(), key, say.orNull(), state);
        return text.endsWith("nothing") ? Optional.empty() : Optional.of(new Tuple2<>(key, text));
      };

  /** A row's commands, or, for a key `name:program` that times out, its program. */
  private static String said(long atMs, String key, String say, State<Long> state) {
    StringBuilder text = new StringBuilder(atMs < 0 ? "" : atMs + " ");
    text.append(say == null ? "timing out" : say).append(" exists=").append(state.exists());
    String[] parts = String.valueOf(key).split(":");
    String program = say != null ? say : parts.length > 1 ? parts[1] : "";
    for (String command : program.split(",")) {
      if (!command.isEmpty()) {
        text.append(' ').append(command).append('=').append(answer(command, state));
      }
    }
    return text.toString();
  }

  private static String answer(String command, State<Long> state) {
    try {
      switch (command.charAt(0)) {
        case 'u': state.update(Long.parseLong(command.substring(1))); return "ok";
        case 'r': state.remove(); return "ok";
        case 'g': return String.valueOf(state.get());
        case 'o': return state.exists() ? String.valueOf(state.get()) : "none";
        case 'x': return String.valueOf(state.exists());
        case 't': return String.valueOf(state.isTimingOut());
        case 's': return state.toString();
        case 'e': return "nothing";
        default: return "unknown";
      }
    } catch (java.util.NoSuchElementException error) {
      return "refused: not set";
    } catch (IllegalArgumentException error) {
      return "refused";
    }
  }
}
