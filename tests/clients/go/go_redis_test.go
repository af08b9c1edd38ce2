// go-redis, as services and KEDA use it.  PORT is the node's, PROTOCOL 2 or 3; the same over TLS if
// CERTIFICATES is set, see tls_test.go.
package clients

import (
	"context"
	"errors"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const patience = 10 * time.Second

func optionsOf(t *testing.T) *redis.Options {
	t.Helper()
	protocol, err := strconv.Atoi(os.Getenv("PROTOCOL"))
	check(t, err)
	return &redis.Options{Addr: "127.0.0.1:" + os.Getenv("PORT"), Protocol: protocol}
}

func connect(t *testing.T) (context.Context, *redis.Client) {
	t.Helper()
	options := optionsOf(t)
	if os.Getenv("CERTIFICATES") != "" {
		withCertificate(t, options, "client-app")
	}
	client := redis.NewClient(options)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(func() { cancel(); client.Close() })
	check(t, client.FlushAll(ctx).Err())
	return ctx, client
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func same(t *testing.T, got, wanted any) {
	t.Helper()
	if !reflect.DeepEqual(got, wanted) {
		t.Fatalf("got %#v, wanted %#v", got, wanted)
	}
}

// add appends so many entries to a stream and returns their IDs.
func add(t *testing.T, ctx context.Context, client *redis.Client, key string, count int) []string {
	t.Helper()
	ids := make([]string, count)
	for at := range ids {
		var err error
		ids[at], err = client.XAdd(ctx, &redis.XAddArgs{Stream: key, Values: []string{"n", strconv.Itoa(at)}}).Result()
		check(t, err)
	}
	return ids
}

func idsOf(messages []redis.XMessage) []string {
	ids := []string{}
	for _, message := range messages {
		ids = append(ids, message.ID)
	}
	return ids
}

// untilBlocked waits until so many clients wait in a blocking read.
func untilBlocked(t *testing.T, ctx context.Context, client *redis.Client, count int) {
	t.Helper()
	wanted := "blocked_clients:" + strconv.Itoa(count) + "\r\n"
	for {
		info, err := client.Info(ctx, "clients").Result()
		check(t, err)
		if strings.Contains(info, wanted) {
			return
		}
	}
}

func TestStreams(t *testing.T) {
	ctx, client := connect(t)
	ids := add(t, ctx, client, "s", 4)
	length, err := client.XLen(ctx, "s").Result()
	check(t, err)
	same(t, length, int64(4))
	entries, err := client.XRange(ctx, "s", "-", "+").Result()
	check(t, err)
	same(t, idsOf(entries), ids)
	same(t, entries[2].Values, map[string]any{"n": "2"})
	entries, err = client.XRevRangeN(ctx, "s", "+", "-", 1).Result()
	check(t, err)
	same(t, idsOf(entries), ids[3:])
	streams, err := client.XRead(ctx, &redis.XReadArgs{Streams: []string{"s", ids[1]}, Block: -1}).Result()
	check(t, err)
	same(t, idsOf(streams[0].Messages), ids[2:])
	check(t, client.XTrimMaxLen(ctx, "s", 2).Err())
	check(t, client.XDel(ctx, "s", ids[3]).Err())
	entries, err = client.XRange(ctx, "s", "-", "+").Result()
	check(t, err)
	same(t, idsOf(entries), ids[2:3])
}

func TestGroups(t *testing.T) {
	ctx, client := connect(t)
	ids := add(t, ctx, client, "s", 4)
	check(t, client.XGroupCreate(ctx, "s", "g", "0").Err())
	streams, err := client.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: "g", Consumer: "alice", Streams: []string{"s", ">"}, Count: 3, Block: -1,
	}).Result()
	check(t, err)
	same(t, idsOf(streams[0].Messages), ids[:3])
	acked, err := client.XAck(ctx, "s", "g", ids[0]).Result()
	check(t, err)
	same(t, acked, int64(1))
	pending, err := client.XPending(ctx, "s", "g").Result()
	check(t, err)
	same(t, pending, &redis.XPending{Count: 2, Lower: ids[1], Higher: ids[2], Consumers: map[string]int64{"alice": 2}})
	claimed, err := client.XClaim(ctx, &redis.XClaimArgs{
		Stream: "s", Group: "g", Consumer: "bob", Messages: []string{ids[1]},
	}).Result()
	check(t, err)
	same(t, idsOf(claimed), ids[1:2])
	claimed, next, err := client.XAutoClaim(ctx, &redis.XAutoClaimArgs{
		Stream: "s", Group: "g", Consumer: "carol", Start: "0",
	}).Result()
	check(t, err)
	same(t, idsOf(claimed), ids[1:3])
	same(t, next, "0-0")
}

// What KEDA's redis-streams scaler asks for.
func TestXInfoGroupsAndItsLag(t *testing.T) {
	ctx, client := connect(t)
	ids := add(t, ctx, client, "s", 5)
	check(t, client.XGroupCreate(ctx, "s", "g", "0").Err())
	check(t, client.XGroupCreate(ctx, "s", "h", "$").Err())
	for _, lag := range []int64{5, 3, 1} {
		groups, err := client.XInfoGroups(ctx, "s").Result()
		check(t, err)
		same(t, groups[0].Lag, lag)
		same(t, groups[0].EntriesRead, 5-lag)
		same(t, groups[0].Pending, 5-lag)
		same(t, []string{groups[0].Name, groups[1].Name}, []string{"g", "h"})
		same(t, groups[1].LastDeliveredID, ids[4])
		_, err = client.XReadGroup(ctx, &redis.XReadGroupArgs{
			Group: "g", Consumer: "alice", Streams: []string{"s", ">"}, Count: 2, Block: -1,
		}).Result()
		check(t, err)
	}
}

func TestXInfoStream(t *testing.T) {
	ctx, client := connect(t)
	ids := add(t, ctx, client, "s", 3)
	check(t, client.XGroupCreate(ctx, "s", "g", "0").Err())
	_, err := client.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: "g", Consumer: "alice", Streams: []string{"s", ">"}, Count: 1, Block: -1,
	}).Result()
	check(t, err)
	stream, err := client.XInfoStream(ctx, "s").Result()
	check(t, err)
	same(t, []any{stream.Length, stream.Groups, stream.FirstEntry.ID}, []any{int64(3), int64(1), ids[0]})
	full, err := client.XInfoStreamFull(ctx, "s", 2).Result()
	check(t, err)
	same(t, idsOf(full.Entries), ids[:2])
	group := full.Groups[0]
	same(t, []any{group.Name, group.Lag, group.PelCount}, []any{"g", int64(2), int64(1)})
	same(t, group.Pending[0].ID, ids[0])
	same(t, group.Consumers[0].Name, "alice")
	consumers, err := client.XInfoConsumers(ctx, "s", "g").Result()
	check(t, err)
	same(t, []any{consumers[0].Name, consumers[0].Pending}, []any{"alice", int64(1)})
}

func TestTransactions(t *testing.T) {
	ctx, client := connect(t)
	replies, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.XAdd(ctx, &redis.XAddArgs{Stream: "s", Values: []string{"n", "1"}})
		pipe.XLen(ctx, "s")
		return nil
	})
	check(t, err)
	same(t, replies[1].(*redis.IntCmd).Val(), int64(1))
	err = client.Watch(ctx, func(tx *redis.Tx) error {
		add(t, ctx, client, "s", 1)
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Del(ctx, "s")
			return nil
		})
		return err
	}, "s")
	if !errors.Is(err, redis.TxFailedErr) {
		t.Fatalf("the watched key changed, and yet: %v", err)
	}
}

func TestBlocking(t *testing.T) {
	ctx, client := connect(t)
	check(t, client.XGroupCreateMkStream(ctx, "s", "g", "$").Err())
	read := make(chan []redis.XStream, 2)
	failed := make(chan error, 2)
	go func() {
		streams, err := client.XRead(ctx, &redis.XReadArgs{Streams: []string{"s", "$"}, Block: patience}).Result()
		read <- streams
		failed <- err
	}()
	go func() {
		streams, err := client.XReadGroup(ctx, &redis.XReadGroupArgs{
			Group: "g", Consumer: "alice", Streams: []string{"s", ">"}, Block: patience,
		}).Result()
		read <- streams
		failed <- err
	}()
	untilBlocked(t, ctx, client, 2)
	ids := add(t, ctx, client, "s", 1)
	for range 2 {
		streams := <-read
		check(t, <-failed)
		same(t, idsOf(streams[0].Messages), ids)
	}
	_, err := client.XRead(ctx, &redis.XReadArgs{Streams: []string{"s", "$"}, Block: time.Millisecond}).Result()
	same(t, err, redis.Nil)
}

func TestPublishAndSubscribe(t *testing.T) {
	ctx, client := connect(t)
	listener := client.Subscribe(ctx, "news")
	defer listener.Close()
	_, err := listener.Receive(ctx)
	check(t, err)
	counts, err := client.PubSubNumSub(ctx, "news", "none").Result()
	check(t, err)
	same(t, counts, map[string]int64{"news": 1, "none": 0})
	count, err := client.Publish(ctx, "news", "hello").Result()
	check(t, err)
	same(t, count, int64(1))
	message, err := listener.ReceiveMessage(ctx)
	check(t, err)
	same(t, []string{message.Channel, message.Payload}, []string{"news", "hello"})
}
