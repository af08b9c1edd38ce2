import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.security.cert.X509Certificate;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import javax.net.ssl.SSLPeerUnverifiedException;
import redis.clients.jedis.ConnectionPoolConfig;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.Protocol.Command;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.SslOptions;
import redis.clients.jedis.SslVerifyMode;
import redis.clients.jedis.StreamEntryID;
import redis.clients.jedis.exceptions.JedisAccessControlException;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.params.XReadGroupParams;

/**
 * Jedis over TLS, as users. PORT is the node's, PROTOCOL 2 or 3, CERTIFICATES the folder of the
 * files, PASSWORD the users'. Each test prints a line; the first failure ends the program.
 */
public class JedisTests {
  static final int PORT = Integer.parseInt(System.getenv("PORT"));
  static final Path FOLDER = Path.of(System.getenv("CERTIFICATES"));
  static final String PASSWORD = System.getenv("PASSWORD");
  static final RedisProtocol PROTOCOL =
      System.getenv("PROTOCOL").equals("3") ? RedisProtocol.RESP3 : RedisProtocol.RESP2;
  static final int PATIENCE_SECONDS = 20;

  /** The files are read at each connection, so that renewed ones are used. */
  static SslOptions secured(File trusted, File own, char[] password) {
    return SslOptions.builder()
        .truststore(trusted, password)
        .keystore(own, password)
        .sslVerifyMode(SslVerifyMode.FULL)
        .build();
  }

  // --- Clients ----------------------------------------------------------------------------------

  static File store(String holder) {
    return FOLDER.resolve(holder).resolve("client.p12").toFile();
  }

  static SslOptions holder(String name) {
    return secured(FOLDER.resolve("ca.p12").toFile(), store(name), PASSWORD.toCharArray());
  }

  static RedisClient connect(SslOptions tls, Consumer<DefaultJedisClientConfig.Builder> change) {
    return connect("localhost", tls, change);
  }

  /** A client of one connection at most. */
  static RedisClient connect(
      String host, SslOptions tls, Consumer<DefaultJedisClientConfig.Builder> change) {
    var config = DefaultJedisClientConfig.builder().protocol(PROTOCOL).sslOptions(tls);
    config.timeoutMillis(PATIENCE_SECONDS * 1000);
    change.accept(config);
    var pool = new ConnectionPoolConfig();
    pool.setMaxTotal(1);
    return RedisClient.builder()
        .hostAndPort(new HostAndPort(host, PORT))
        .clientConfig(config.build())
        .poolConfig(pool)
        .build();
  }

  static RedisClient connect(String holder) {
    return connect(holder(holder), config -> {});
  }

  static String whoami(RedisClient client) {
    return new String((byte[]) client.sendCommand(Command.ACL, "WHOAMI"));
  }

  static void cutOff(RedisClient client) {
    var id = String.valueOf(client.sendCommand(Command.CLIENT, "ID"));
    try (var other = connect("client-app")) {
      same(other.sendCommand(Command.CLIENT, "KILL", "ID", id), 1L);
    }
    // Its pool tries a connection only when it is used: the first command fails.
    refused(JedisConnectionException.class, "", client::ping);
  }

  static void useCertificate(RedisClient client, String name) {
    var folder = FOLDER.resolve(name);
    client.sendCommand(
        Command.CONFIG,
        "SET",
        "tls-cert-file",
        folder.resolve("cert.pem").toString(),
        "tls-key-file",
        folder.resolve("key.pem").toString());
  }

  // --- What must hold ---------------------------------------------------------------------------

  static void same(Object found, Object wanted) {
    if (!wanted.equals(found)) {
      throw new AssertionError("got " + found + ", wanted " + wanted);
    }
  }

  /** The action ends in this exception, whose text or whose causes' has these words. */
  static void refused(Class<? extends Exception> type, String words, Runnable action) {
    try {
      action.run();
    } catch (Exception error) {
      var texts = new StringBuilder();
      for (Throwable one = error; one != null; one = one.getCause()) {
        texts.append(one).append('\n');
      }
      if (!type.isInstance(error) || !texts.toString().contains(words)) {
        throw new AssertionError("another error", error);
      }
      return;
    }
    throw new AssertionError("it was not refused");
  }

  // --- Tests ------------------------------------------------------------------------------------

  static void aCertificateIsTheLogin() {
    try (var client = connect("client-app")) {
      same(whoami(client), "app");
    }
  }

  static void aNameAndAPasswordReplaceTheUserOfTheCertificate() {
    for (var name : List.of("client-app", "client-stranger")) {
      try (var client = connect(holder(name), to -> to.user("reader").password(PASSWORD))) {
        same(whoami(client), "reader");
      }
    }
  }

  static void whatAUserMayNotDoIsAnErrorOfTheLibrary() {
    try (var client = connect("client-reader")) {
      same(client.xrange("orders:1", "-", "+"), List.of());
      refused(
          JedisAccessControlException.class,
          "NOPERM User reader has no permissions to run the 'xadd' command",
          () -> client.xadd("orders:1", StreamEntryID.NEW_ENTRY, Map.of("f", "v")));
      refused(
          JedisAccessControlException.class,
          "NOPERM",
          () -> client.xrange("secret", "-", "+"));
    }
  }

  static void aClientIsRefusedWithoutAGoodCertificate() {
    var none =
        SslOptions.builder()
            .truststore(FOLDER.resolve("ca.p12").toFile(), PASSWORD.toCharArray())
            .build();
    var type = JedisConnectionException.class;
    refused(type, "certificate_required", () -> connect(none, config -> {}).ping());
    refused(type, "certificate_expired", () -> connect("client-expired").ping());
    refused(type, "unknown_ca", () -> connect("client-forged").ping());
  }

  static void aClientRefusesANodeThatItDoesNotTrust() {
    var other = FOLDER.resolve("other-ca.p12").toFile();
    var tls = secured(other, store("client-app"), PASSWORD.toCharArray());
    refused(
        JedisConnectionException.class,
        "unable to find valid certification path",
        () -> connect(tls, config -> {}).ping());
  }

  static void aClientChecksTheNameOfTheNode() {
    refused(
        JedisConnectionException.class,
        "No subject alternative names matching IP address 127.0.0.1",
        () -> connect("127.0.0.1", holder("client-app"), config -> {}).ping());
  }

  static void aCertificateOfNoUserIsNoLoginAndNeitherIsAWrongPassword() {
    refused(Exception.class, "NOAUTH", () -> connect("client-stranger").ping());
    refused(
        Exception.class,
        "WRONGPASS",
        () ->
            connect(
                    holder("client-app"),
                    to -> to.user("app").password("a-wrong-password-of-users"))
                .ping());
  }

  static void aSubscriberHearsWhatIsPublished() throws Exception {
    var heard = new CompletableFuture<List<String>>();
    var subscribed = new CompletableFuture<Void>();
    var listener =
        new JedisPubSub() {
          final List<String> messages = new ArrayList<>();

          @Override
          public void onSubscribe(String channel, int count) {
            subscribed.complete(null);
          }

          @Override
          public void onMessage(String channel, String message) {
            messages.add(message);
            if (messages.size() == 100) {
              heard.complete(messages);
              unsubscribe();
            }
          }
        };
    try (var client = connect("client-app");
        var other = connect("client-app")) {
      var listening = CompletableFuture.runAsync(() -> other.subscribe(listener, "news"));
      subscribed.get(PATIENCE_SECONDS, TimeUnit.SECONDS);
      var sent = new ArrayList<String>();
      for (int n = 0; n < 100; n++) {
        sent.add(String.valueOf(n));
        client.publish("news", String.valueOf(n));
      }
      same(heard.get(PATIENCE_SECONDS, TimeUnit.SECONDS), sent);
      listening.get(PATIENCE_SECONDS, TimeUnit.SECONDS);
    }
  }

  static void aReaderOfAGroupWaits() throws Exception {
    try (var client = connect("client-app");
        var reader = connect("client-app")) {
      client.flushAll();
      client.xgroupCreate("s", "g", StreamEntryID.XGROUP_LAST_ENTRY, true);
      var waiting =
          CompletableFuture.supplyAsync(
              () ->
                  reader.xreadGroup(
                      "g",
                      "c",
                      XReadGroupParams.xReadGroupParams().block(PATIENCE_SECONDS * 1000),
                      Map.of("s", StreamEntryID.XREADGROUP_UNDELIVERED_ENTRY)));
      while (!client.info("clients").contains("blocked_clients:1\r\n")) {
        Thread.onSpinWait();
      }
      var id = client.xadd("s", StreamEntryID.NEW_ENTRY, Map.of("f", "v"));
      var found = waiting.get(PATIENCE_SECONDS, TimeUnit.SECONDS);
      same(found.get(0).getValue().get(0).getID(), id);
    }
  }

  static void aLongPipelineAndALargeValue() {
    try (var client = connect("client-app")) {
      client.flushAll();
      var ids = new HashSet<StreamEntryID>();
      var replies = new ArrayList<Response<StreamEntryID>>();
      try (var pipeline = client.pipelined()) {
        for (int n = 0; n < 1000; n++) {
          replies.add(pipeline.xadd("s", StreamEntryID.NEW_ENTRY, Map.of("f", "v")));
        }
      }
      replies.forEach(reply -> ids.add(reply.get()));
      same(ids.size(), 1000);
      var value = "0123456789abcdef".repeat((8 << 20) / 16);
      client.set("large", value);
      same(client.get("large").equals(value), true);
    }
  }

  static void aClientReconnectsAfterTheNodeGotAnotherCertificate() {
    var shown = new ArrayList<String>();
    var client =
        connect(
            holder("client-app"),
            config ->
                config.hostnameVerifier(
                    (host, session) -> {
                      try {
                        var certificate = (X509Certificate) session.getPeerCertificates()[0];
                        return shown.add(certificate.getSubjectX500Principal().getName());
                      } catch (SSLPeerUnverifiedException error) {
                        return false;
                      }
                    }));
    try (client) {
      client.ping();
      same(shown, List.of("CN=server"));
      try {
        useCertificate(client, "renewed");
        client.ping();
        same(shown, List.of("CN=server"));
        cutOff(client);
        client.ping();
        same(shown, List.of("CN=server", "CN=renewed"));
      } finally {
        useCertificate(client, "region-1");
      }
    }
  }

  static void filesOfAClientAreReadForEachConnection() throws Exception {
    var own = Files.createTempDirectory(FOLDER, "renewed").resolve("client.p12");
    Files.copy(store("client-app").toPath(), own);
    var tls = secured(FOLDER.resolve("ca.p12").toFile(), own.toFile(), PASSWORD.toCharArray());
    try (var client = connect(tls, config -> {})) {
      same(whoami(client), "app");
      Files.copy(store("client-reader").toPath(), own, StandardCopyOption.REPLACE_EXISTING);
      same(whoami(client), "app");
      cutOff(client);
      same(whoami(client), "reader");
    }
  }

  interface Test {
    void run() throws Exception;
  }

  public static void main(String[] arguments) throws Exception {
    var tests = new LinkedHashMap<String, Test>();
    tests.put("a certificate is the login", JedisTests::aCertificateIsTheLogin);
    tests.put(
        "a name and a password replace the user of the certificate",
        JedisTests::aNameAndAPasswordReplaceTheUserOfTheCertificate);
    tests.put(
        "what a user may not do is an error of the library",
        JedisTests::whatAUserMayNotDoIsAnErrorOfTheLibrary);
    tests.put(
        "a client is refused without a good certificate, and told why",
        JedisTests::aClientIsRefusedWithoutAGoodCertificate);
    tests.put(
        "a client refuses a node that it does not trust",
        JedisTests::aClientRefusesANodeThatItDoesNotTrust);
    tests.put(
        "a client checks the name of the node", JedisTests::aClientChecksTheNameOfTheNode);
    tests.put(
        "a certificate of no user is no login, and neither is a wrong password",
        JedisTests::aCertificateOfNoUserIsNoLoginAndNeitherIsAWrongPassword);
    tests.put("a subscriber hears what is published", JedisTests::aSubscriberHearsWhatIsPublished);
    tests.put("a reader of a group waits", JedisTests::aReaderOfAGroupWaits);
    tests.put("a long pipeline and a large value", JedisTests::aLongPipelineAndALargeValue);
    tests.put(
        "a client reconnects after the node got another certificate",
        JedisTests::aClientReconnectsAfterTheNodeGotAnotherCertificate);
    tests.put(
        "files of a client are read for each connection",
        JedisTests::filesOfAClientAreReadForEachConnection);
    for (var test : tests.entrySet()) {
      System.out.println(test.getKey());
      test.getValue().run();
    }
    System.out.println(tests.size() + " passed");
  }
}
