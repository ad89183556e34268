import com.zaxxer.hikari.HikariDataSource;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.sql.Connection;
import java.sql.Statement;
import java.time.Instant;
import java.util.Date;
import java.util.HashSet;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.quartz.Job;
import org.quartz.JobBuilder;
import org.quartz.JobDetail;
import org.quartz.JobExecutionContext;
import org.quartz.Scheduler;
import org.quartz.SimpleScheduleBuilder;
import org.quartz.Trigger;
import org.quartz.TriggerBuilder;
import org.quartz.impl.StdSchedulerFactory;

/** Quartz on PostgreSQL: setup, insert, work. What is said to it stands in benchmarks/README.md. */
public final class Peer {
  private static final int THREADS = 50;
  private static final int CONNECTIONS = 60;
  private static final int BATCH = 1_000;
  private static final String TABLES = "org/quartz/impl/jdbcjobstore/tables_postgres.sql";

  public static void main(String[] words) throws Exception {
    switch (words[0]) {
      case "setup" -> setup();
      case "insert" -> insert();
      default -> work();
    }
  }

  private static String url() {
    return "jdbc:postgresql://127.0.0.1:" + System.getenv("PEER_POSTGRES_PORT") + "/peers?user=postgres";
  }

  private static Scheduler scheduler() throws Exception {
    Properties said = new Properties();
    said.put("org.quartz.scheduler.instanceName", "peers");
    said.put("org.quartz.scheduler.instanceId", "AUTO");
    said.put("org.quartz.scheduler.skipUpdateCheck", "true");
    said.put("org.quartz.scheduler.batchTriggerAcquisitionMaxCount", Integer.toString(THREADS));
    said.put("org.quartz.threadPool.threadCount", Integer.toString(THREADS));
    said.put("org.quartz.jobStore.class", "org.quartz.impl.jdbcjobstore.JobStoreTX");
    said.put("org.quartz.jobStore.driverDelegateClass", "org.quartz.impl.jdbcjobstore.PostgreSQLDelegate");
    said.put("org.quartz.jobStore.dataSource", "peers");
    said.put("org.quartz.jobStore.isClustered", "true");
    // Needed, its documentation says, once several triggers are acquired at once.
    said.put("org.quartz.jobStore.acquireTriggersWithinLock", "true");
    said.put("org.quartz.dataSource.peers.provider", "hikaricp");
    said.put("org.quartz.dataSource.peers.driver", "org.postgresql.Driver");
    said.put("org.quartz.dataSource.peers.URL", url());
    said.put("org.quartz.dataSource.peers.maximumPoolSize", Integer.toString(CONNECTIONS));
    return new StdSchedulerFactory(said).getScheduler();
  }

  private static void setup() throws Exception {
    try (HikariDataSource source = new HikariDataSource();
        InputStream tables = Scheduler.class.getClassLoader().getResourceAsStream(TABLES)) {
      source.setJdbcUrl(url());
      try (Connection connection = source.getConnection(); Statement statement = connection.createStatement()) {
        statement.execute(new String(tables.readAllBytes(), StandardCharsets.UTF_8));
      }
    }
  }

  private static void insert() throws Exception {
    Scheduler client = scheduler();
    JobDetail job = JobBuilder.newJob(Note.class).withIdentity("note").storeDurably().build();
    insert(client, job, -number("PEER_WARM"), 0, new Date());
    insert(client, job, 0, number("PEER_N"), new Date(number("PEER_DUE_MS")));
    client.shutdown();
  }

  private static void insert(Scheduler client, JobDetail job, long from, long before, Date at) throws Exception {
    for (long begin = from; begin < before; begin += BATCH) {
      Set<Trigger> batch = new HashSet<>();
      for (long n = begin; n < Math.min(begin + BATCH, before); n++) {
        batch.add(
            TriggerBuilder.newTrigger()
                .forJob(job)
                .withIdentity(Long.toString(n))
                .startAt(at)
                .withSchedule(SimpleScheduleBuilder.simpleSchedule().withMisfireHandlingInstructionFireNow())
                .build());
      }
      client.scheduleJobs(Map.of(job, batch), true);
    }
  }

  private static void work() throws Exception {
    Note.open();
    scheduler().start();
    System.out.println("ready");
    Thread.currentThread().join();
  }

  private static long number(String name) {
    return Long.parseLong(System.getenv(name));
  }

  /** Does nothing but leave evidence: one short write, which outlives the process. */
  public static final class Note implements Job {
    private static FileChannel file;
    private static final ThreadLocal<ByteBuffer> BUFFER =
        ThreadLocal.withInitial(() -> ByteBuffer.allocateDirect(24).order(ByteOrder.LITTLE_ENDIAN));

    static void open() throws IOException {
      Path path = Path.of(System.getenv("PEER_STARTS"));
      file = FileChannel.open(path, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }

    @Override
    public void execute(JobExecutionContext context) {
      String name = context.getTrigger().getKey().getName();
      Instant now = Instant.now();
      ByteBuffer record = BUFFER.get().clear();
      record.putLong(Long.parseLong(name)).putLong(now.getEpochSecond() * 1_000_000_000L + now.getNano());
      record.putLong(context.isRecovering() ? 1 : 0).flip();
      try {
        file.write(record);
      } catch (IOException error) {
        throw new IllegalStateException(error);
      }
    }
  }
}
