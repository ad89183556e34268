import com.github.kagkarlsson.scheduler.Scheduler;
import com.github.kagkarlsson.scheduler.task.TaskInstance;
import com.github.kagkarlsson.scheduler.task.helper.OneTimeTask;
import com.github.kagkarlsson.scheduler.task.helper.Tasks;
import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.sql.Connection;
import java.sql.Statement;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;

/** db-scheduler on PostgreSQL: setup, insert, work. What is said to it stands in benchmarks/README.md. */
public final class Peer {
  private static final int THREADS = 100;
  private static final int CONNECTIONS = 20;
  private static final Duration POLL = Duration.ofMillis(100);
  private static final double FETCH_BELOW = 4.0;
  private static final double FETCH_UP_TO = 20.0;
  private static final int BATCH = 5_000;

  /** As the project's own postgresql_tables.sql has it. */
  private static final String TABLES =
      """
      create table scheduled_tasks (
        task_name text not null, task_instance text not null, task_data bytea,
        execution_time timestamp with time zone not null, picked boolean not null, picked_by text,
        last_success timestamp with time zone, last_failure timestamp with time zone, consecutive_failures int,
        last_heartbeat timestamp with time zone, version bigint not null, priority smallint,
        primary key (task_name, task_instance));
      create index execution_time_idx on scheduled_tasks (execution_time);
      create index last_heartbeat_idx on scheduled_tasks (last_heartbeat);
      create index priority_execution_time_idx on scheduled_tasks (priority desc, execution_time asc);
      """;

  public static void main(String[] words) throws Exception {
    HikariConfig config = new HikariConfig();
    String port = System.getenv("PEER_POSTGRES_PORT");
    config.setJdbcUrl("jdbc:postgresql://127.0.0.1:" + port + "/peers?user=postgres&reWriteBatchedInserts=true");
    config.setMaximumPoolSize(CONNECTIONS);
    try (HikariDataSource source = new HikariDataSource(config)) {
      switch (words[0]) {
        case "setup" -> setup(source);
        case "insert" -> insert(source);
        default -> work(source);
      }
    }
  }

  private static void setup(HikariDataSource source) throws Exception {
    try (Connection connection = source.getConnection(); Statement statement = connection.createStatement()) {
      statement.execute(TABLES);
    }
  }

  private static void insert(HikariDataSource source) {
    OneTimeTask<Void> task = Tasks.oneTime("note").execute((instance, context) -> {});
    Scheduler client = Scheduler.create(source, task).build();
    Instant due = Instant.ofEpochMilli(number("PEER_DUE_MS"));
    Instant now = Instant.now();
    insert(client, task, -number("PEER_WARM"), 0, now);
    insert(client, task, 0, number("PEER_N"), due);
  }

  private static void insert(Scheduler client, OneTimeTask<Void> task, long from, long before, Instant at) {
    for (long begin = from; begin < before; begin += BATCH) {
      List<TaskInstance<?>> batch = new ArrayList<>();
      for (long n = begin; n < Math.min(begin + BATCH, before); n++) {
        batch.add(task.instance(Long.toString(n)));
      }
      client.scheduleBatch(batch, at);
    }
  }

  private static void work(HikariDataSource source) throws Exception {
    Starts starts = new Starts();
    OneTimeTask<Void> task =
        Tasks.oneTime("note")
            .execute(
                (instance, context) ->
                    starts.note(Long.parseLong(instance.getId()), context.getExecution().consecutiveFailures > 0));
    Scheduler scheduler =
        Scheduler.create(source, task)
            .threads(THREADS)
            .pollingInterval(POLL)
            .pollUsingLockAndFetch(FETCH_BELOW, FETCH_UP_TO)
            .build();
    scheduler.start();
    System.out.println("ready");
    Thread.currentThread().join();
  }

  private static long number(String name) {
    return Long.parseLong(System.getenv(name));
  }

  /** Evidence of starts: one short write each, which outlives the process. */
  private static final class Starts {
    private final FileChannel file =
        FileChannel.open(
            Path.of(System.getenv("PEER_STARTS")), StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    private final ThreadLocal<ByteBuffer> buffer =
        ThreadLocal.withInitial(() -> ByteBuffer.allocateDirect(24).order(ByteOrder.LITTLE_ENDIAN));

    Starts() throws IOException {}

    void note(long number, boolean told) {
      Instant now = Instant.now();
      ByteBuffer record = buffer.get().clear();
      record.putLong(number).putLong(now.getEpochSecond() * 1_000_000_000L + now.getNano()).putLong(told ? 1 : 0).flip();
      try {
        file.write(record);
      } catch (IOException error) {
        throw new IllegalStateException(error);
      }
    }
  }
}
