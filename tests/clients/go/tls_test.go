// go-redis over TLS, as users.  CERTIFICATES is the folder of their files, PASSWORD the users'.
// Without it there is no TLS, and these tests are skipped.
package clients

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// secured reads the files at each connection, so that renewed ones are used.
func secured(ca, certificate, key string) (*tls.Config, error) {
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem)
	return &tls.Config{
		RootCAs: trusted,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(certificate, key)
			return &pair, err
		},
	}, nil
}

func inFolder(names ...string) string {
	return filepath.Join(append([]string{os.Getenv("CERTIFICATES")}, names...)...)
}

// withCertificate changes the options of a client: it shows the certificate of a holder.
func withCertificate(t *testing.T, options *redis.Options, holder string) {
	t.Helper()
	config, err := secured(inFolder("ca.pem"), inFolder(holder, "cert.pem"), inFolder(holder, "key.pem"))
	check(t, err)
	// As the certificate of the node names it.
	options.Addr = "localhost:" + os.Getenv("PORT")
	options.TLSConfig = config
}

// connectAs connects a client that tries once; change may change its options.
func connectAs(t *testing.T, holder string, change func(*redis.Options)) (context.Context, *redis.Client) {
	t.Helper()
	if os.Getenv("CERTIFICATES") == "" {
		t.Skip("no TLS here")
	}
	options := optionsOf(t)
	withCertificate(t, options, holder)
	options.MaxRetries = -1
	if change != nil {
		change(options)
	}
	client := redis.NewClient(options)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(func() { cancel(); client.Close() })
	return ctx, client
}

func whoami(t *testing.T, ctx context.Context, client *redis.Client) string {
	t.Helper()
	name, err := client.Do(ctx, "ACL", "WHOAMI").Text()
	check(t, err)
	return name
}

// refusal is the error of PING.
func refusal(t *testing.T, holder string, change func(*redis.Options)) error {
	t.Helper()
	ctx, client := connectAs(t, holder, change)
	err := client.Ping(ctx).Err()
	if err == nil {
		t.Fatal("it is served")
	}
	return err
}

func contains(t *testing.T, err error, wanted string) {
	t.Helper()
	if !strings.Contains(err.Error(), wanted) {
		t.Fatalf("got %q, wanted %q in it", err, wanted)
	}
}

func TestTLSACertificateIsTheLogin(t *testing.T) {
	ctx, client := connectAs(t, "client-app", nil)
	same(t, whoami(t, ctx, client), "app")
}

func TestTLSANameAndAPasswordReplaceTheUserOfTheCertificate(t *testing.T) {
	for _, holder := range []string{"client-app", "client-stranger"} {
		ctx, client := connectAs(t, holder, func(options *redis.Options) {
			options.Username, options.Password = "reader", os.Getenv("PASSWORD")
		})
		same(t, whoami(t, ctx, client), "reader")
	}
}

func TestTLSWhatAUserMayNotDoIsAnErrorOfTheLibrary(t *testing.T) {
	ctx, client := connectAs(t, "client-reader", nil)
	check(t, client.XRange(ctx, "orders:1", "-", "+").Err())
	err := client.XAdd(ctx, &redis.XAddArgs{Stream: "orders:1", Values: []string{"f", "v"}}).Err()
	if !redis.IsPermissionError(err) {
		t.Fatalf("another error: %v", err)
	}
	contains(t, err, "NOPERM User reader has no permissions to run the 'xadd' command")
	if err = client.XRange(ctx, "secret", "-", "+").Err(); !redis.IsPermissionError(err) {
		t.Fatalf("another error: %v", err)
	}
}

func TestTLSAClientIsRefusedWithoutAGoodCertificate(t *testing.T) {
	err := refusal(t, "client-app", func(options *redis.Options) { options.TLSConfig.GetClientCertificate = nil })
	contains(t, err, "certificate required")
	contains(t, refusal(t, "client-expired", nil), "expired certificate")
	contains(t, refusal(t, "client-forged", nil), "unknown certificate authority")
}

func TestTLSAClientRefusesANodeThatItDoesNotTrust(t *testing.T) {
	err := refusal(t, "client-app", func(options *redis.Options) {
		pem, err := os.ReadFile(inFolder("other-ca.pem"))
		check(t, err)
		options.TLSConfig.RootCAs = x509.NewCertPool()
		options.TLSConfig.RootCAs.AppendCertsFromPEM(pem)
	})
	var unknown x509.UnknownAuthorityError
	if !errors.As(err, &unknown) {
		t.Fatalf("another error: %v", err)
	}
}

func TestTLSAClientChecksTheNameOfTheNode(t *testing.T) {
	err := refusal(t, "client-app", func(options *redis.Options) { options.Addr = "127.0.0.1:" + os.Getenv("PORT") })
	var another x509.HostnameError
	if !errors.As(err, &another) {
		t.Fatalf("another error: %v", err)
	}
}

func TestTLSACertificateOfNoUserIsNoLogin(t *testing.T) {
	err := refusal(t, "client-stranger", nil)
	if !redis.IsAuthError(err) {
		t.Fatalf("another error: %v", err)
	}
	err = refusal(t, "client-app", func(options *redis.Options) {
		options.Username, options.Password = "app", "a-wrong-password-of-users"
	})
	contains(t, err, "WRONGPASS")
}

func TestTLSALongPipelineAndALargeValue(t *testing.T) {
	ctx, client := connectAs(t, "client-app", nil)
	check(t, client.FlushAll(ctx).Err())
	_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for range 1000 {
			pipe.XAdd(ctx, &redis.XAddArgs{Stream: "s", Values: []string{"f", "v"}})
		}
		return nil
	})
	check(t, err)
	length, err := client.XLen(ctx, "s").Result()
	check(t, err)
	same(t, length, int64(1000))
	value := bytes.Repeat([]byte("0123456789abcdef"), 8<<20/16)
	check(t, client.Set(ctx, "large", value, 0).Err())
	got, err := client.Get(ctx, "large").Bytes()
	check(t, err)
	if !bytes.Equal(got, value) {
		t.Fatal("another value")
	}
}

// useCertificate has the node use other files.
func useCertificate(t *testing.T, ctx context.Context, client *redis.Client, name string) {
	t.Helper()
	check(t, client.Do(ctx, "CONFIG", "SET", "tls-cert-file", inFolder(name, "cert.pem"),
		"tls-key-file", inFolder(name, "key.pem")).Err())
}

func TestTLSAClientReconnectsAfterTheNodeGotAnotherCertificate(t *testing.T) {
	shown := ""
	ctx, client := connectAs(t, "client-app", func(options *redis.Options) {
		options.PoolSize = 1
		// The first try finds the connection that was cut.
		options.MaxRetries = 1
		options.TLSConfig.VerifyConnection = func(state tls.ConnectionState) error {
			shown = state.PeerCertificates[0].Subject.CommonName
			return nil
		}
	})
	check(t, client.Ping(ctx).Err())
	same(t, shown, "server")
	defer useCertificate(t, ctx, client, "region-1")
	useCertificate(t, ctx, client, "renewed")
	check(t, client.Ping(ctx).Err())
	same(t, shown, "server")
	cutOff(t, client)
	check(t, client.Ping(ctx).Err())
	same(t, shown, "renewed")
}

// cutOff has the node end the one connection of a client.
func cutOff(t *testing.T, client *redis.Client) {
	t.Helper()
	ctx, other := connectAs(t, "client-app", nil)
	id, err := client.ClientID(ctx).Result()
	check(t, err)
	killed, err := other.ClientKillByFilter(ctx, "ID", strconv.FormatInt(id, 10)).Result()
	check(t, err)
	same(t, killed, int64(1))
}

func TestTLSFilesOfAClientAreReadForEachConnection(t *testing.T) {
	folder := t.TempDir()
	put := func(holder string) {
		for _, name := range []string{"cert.pem", "key.pem"} {
			content, err := os.ReadFile(inFolder(holder, name))
			check(t, err)
			check(t, os.WriteFile(filepath.Join(folder, name), content, 0o600))
		}
	}
	ctx, client := connectAs(t, "client-app", func(options *redis.Options) {
		options.PoolSize, options.MaxRetries = 1, 1
		config, err := secured(
			inFolder("ca.pem"), filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem"))
		check(t, err)
		options.TLSConfig = config
		put("client-app")
	})
	same(t, whoami(t, ctx, client), "app")
	put("client-reader")
	same(t, whoami(t, ctx, client), "app")
	cutOff(t, client)
	same(t, whoami(t, ctx, client), "reader")
}
