// River on PostgreSQL: `river setup`, `river insert`, `river work`. What is said to it stands in benchmarks/README.md.
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const (
	workers       = 500
	connections   = 20
	fetchCooldown = time.Millisecond
	fetchPoll     = 10 * time.Millisecond
	batch         = 5_000
)

// NoteArgs names a job by its number.
type NoteArgs struct {
	Number int64 `json:"number"`
}

// Kind is the name of the job's kind.
func (NoteArgs) Kind() string { return "note" }

// NoteWorker does nothing but leave evidence: one short write, which outlives the process.
type NoteWorker struct {
	river.WorkerDefaults[NoteArgs]
	starts *os.File
}

// Work notes the start; an attempt beyond the first says that the job may have run before.
func (w *NoteWorker) Work(_ context.Context, job *river.Job[NoteArgs]) error {
	var record [24]byte
	binary.LittleEndian.PutUint64(record[0:], uint64(job.Args.Number))
	binary.LittleEndian.PutUint64(record[8:], uint64(time.Now().UnixNano()))
	if job.Attempt > 1 {
		record[16] = 1
	}
	_, err := w.starts.Write(record[:])
	return err
}

func main() {
	ctx := context.Background()
	config := must(pgxpool.ParseConfig(fmt.Sprintf("postgres://postgres@127.0.0.1:%d/peers", number("PEER_POSTGRES_PORT"))))
	config.MaxConns = connections
	pool := must(pgxpool.NewWithConfig(ctx, config))
	defer pool.Close()
	switch os.Args[1] {
	case "setup":
		must(must(rivermigrate.New(riverpgxv5.New(pool), nil)).Migrate(ctx, rivermigrate.DirectionUp, nil))
	case "insert":
		insert(ctx, pool)
	case "work":
		work(ctx, pool)
	}
}

func insert(ctx context.Context, pool *pgxpool.Pool) {
	client := must(river.NewClient(riverpgxv5.New(pool), &river.Config{}))
	due, now := time.UnixMilli(number("PEER_DUE_MS")), time.Now()
	var params []river.InsertManyParams
	for n := -number("PEER_WARM"); n < number("PEER_N"); n++ {
		at := due
		if n < 0 {
			at = now
		}
		params = append(params, river.InsertManyParams{Args: NoteArgs{n}, InsertOpts: &river.InsertOpts{ScheduledAt: at}})
		if len(params) == batch || n == number("PEER_N")-1 {
			must(client.InsertManyFast(ctx, params))
			params = params[:0]
		}
	}
}

func work(ctx context.Context, pool *pgxpool.Pool) {
	starts := must(os.OpenFile(os.Getenv("PEER_STARTS"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644))
	registry := river.NewWorkers()
	river.AddWorker(registry, &NoteWorker{starts: starts})
	client := must(river.NewClient(riverpgxv5.New(pool), &river.Config{
		FetchCooldown:     fetchCooldown,
		FetchPollInterval: fetchPoll,
		Logger:            slog.New(slog.NewTextHandler(io.Discard, nil)),
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}},
		Workers:           registry,
	}))
	if err := client.Start(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("ready")
	select {}
}

func number(name string) int64 {
	return must(strconv.ParseInt(os.Getenv(name), 10, 64))
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
