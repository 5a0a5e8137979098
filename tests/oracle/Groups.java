// The program of `groups.py` as functions of Spark's Java API, which has the rules of Scala's GroupState.
//
// A row's `say` is a few commands; they run in order, and each says what it saw. It is compiled when a case asks for it.

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.api.java.function.FlatMapGroupsWithStateFunction;
import org.apache.spark.api.java.function.MapFunction;
import org.apache.spark.api.java.function.MapGroupsWithStateFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.KeyValueGroupedDataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.GroupState;
import org.apache.spark.sql.streaming.GroupStateTimeout;
import org.apache.spark.sql.streaming.OutputMode;

public final class Groups {
  public static Dataset<?> flatMap(Dataset<Row> rows, String mode, String timeout) {
    FlatMapGroupsWithStateFunction<String, Row, Long, String> each =
        (key, group, state) -> run(key, group, state).iterator();
    OutputMode outputs = mode.equals("append") ? OutputMode.Append() : OutputMode.Update();
    return keyed(rows).flatMapGroupsWithState(each, outputs, Encoders.LONG(), Encoders.STRING(), of(timeout)).toDF();
  }

  public static Dataset<?> flatMapFrom(Dataset<Row> rows, Dataset<Row> initial, String timeout) {
    FlatMapGroupsWithStateFunction<String, Row, Long, String> each =
        (key, group, state) -> run(key, group, state).iterator();
    return keyed(rows)
        .flatMapGroupsWithState(
            each, OutputMode.Update(), Encoders.LONG(), Encoders.STRING(), of(timeout), states(initial))
        .toDF();
  }

  public static Dataset<?> map(Dataset<Row> rows, String timeout) {
    MapGroupsWithStateFunction<String, Row, Long, String> once =
        (key, group, state) -> String.join(" ", run(key, group, state));
    return keyed(rows).mapGroupsWithState(once, Encoders.LONG(), Encoders.STRING(), of(timeout)).toDF();
  }

  public static Dataset<?> mapFrom(Dataset<Row> rows, Dataset<Row> initial, String timeout) {
    MapGroupsWithStateFunction<String, Row, Long, String> once =
        (key, group, state) -> String.join(" ", run(key, group, state));
    return keyed(rows)
        .mapGroupsWithState(once, Encoders.LONG(), Encoders.STRING(), of(timeout), states(initial))
        .toDF();
  }

  private static KeyValueGroupedDataset<String, Long> states(Dataset<Row> initial) {
    return keyed(initial).mapValues((MapFunction<Row, Long>) row -> row.getLong(1), Encoders.LONG());
  }

  private static KeyValueGroupedDataset<String, Row> keyed(Dataset<Row> rows) {
    return rows.groupByKey((MapFunction<Row, String>) row -> row.getString(0), Encoders.STRING());
  }

  private static GroupStateTimeout of(String timeout) {
    switch (timeout) {
      case "ProcessingTimeTimeout": return GroupStateTimeout.ProcessingTimeTimeout();
      case "EventTimeTimeout": return GroupStateTimeout.EventTimeTimeout();
      default: return GroupStateTimeout.NoTimeout();
    }
  }

  private static List<String> run(String key, Iterator<Row> rows, GroupState<Long> state) {
    List<String> said = new ArrayList<>();
    said.add(key + " timedOut=" + state.hasTimedOut() + " exists=" + state.exists());
    if (state.hasTimedOut()) {
      String[] parts = String.valueOf(key).split(":");
      say(key, parts.length > 1 ? parts[1] : "", state, said);
    }
    while (rows.hasNext()) {
      say(key, rows.next().getString(2), state, said);
    }
    return said;
  }

  private static void say(String key, String program, GroupState<Long> state, List<String> said) {
    for (String command : Arrays.asList(program.split(","))) {
      if (command.isEmpty()) {
        continue;
      }
      String found;
      try {
        found = one(command.substring(0, 1), command.substring(1), state);
      } catch (RuntimeException error) {
        found = "refused";
      }
      said.add(key + " " + command + " " + found);
    }
  }

  private static String one(String verb, String number, GroupState<Long> state) {
    switch (verb) {
      case "u": state.update(Long.parseLong(number)); return "ok";
      case "r": state.remove(); return "ok";
      case "d": state.setTimeoutDuration(Long.parseLong(number)); return "ok";
      case "t": state.setTimeoutTimestamp(Long.parseLong(number)); return "ok";
      case "a": state.setTimeoutTimestamp(Long.parseLong(number), "3 seconds"); return "ok";
      case "n": state.update(null); return "ok";
      case "g": return String.valueOf(state.get());
      case "x": return String.valueOf(state.exists());
      case "w": return String.valueOf(state.getCurrentWatermarkMs());
      case "p": return String.valueOf(state.getCurrentProcessingTimeMs());
      default: throw new IllegalArgumentException(verb);
    }
  }
}
