package jobs

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weft/fault"
)

// Options of Open.
type Options struct {
	// Dir is the data folder: files that jobs read and made, states of jobs that run, and, unless
	// NATS is given, the queue. It is made where it is not there. Workers on several machines share
	// one folder.
	Dir string
	// NATS is the URL of a server with JetStream; "" runs one in this process, which listens on no
	// port and has the folder to itself.
	NATS string
	// Credentials is a file of NATS credentials, where the server wants some.
	Credentials string
	// Replicas is how many servers of a cluster keep each change; 0 is 1.
	Replicas int

	// MaxQueued is how many jobs may wait; 0 is DefaultMaxQueued.
	MaxQueued int
	// Retention is for how long an ended job and its files are kept; 0 is DefaultRetention.
	Retention time.Duration
	// MaxDeaths is how many tries in a row may end with their worker's death, without getting a
	// step further, before a job fails; 0 is DefaultMaxDeaths.
	MaxDeaths int
	// Lease is for how long a worker that is not heard of keeps its job; 0 is DefaultLease. All
	// processes of one queue have the same.
	Lease time.Duration

	Log *slog.Logger // nil logs nothing
}

// What Options take where nothing is said.
const (
	DefaultMaxQueued = 1000
	DefaultRetention = 7 * 24 * time.Hour
	DefaultMaxDeaths = 5
	DefaultLease     = 10 * time.Second
)

func (o Options) withDefaults() Options {
	o.MaxQueued, o.MaxDeaths, o.Replicas = cmp.Or(o.MaxQueued, DefaultMaxQueued), cmp.Or(o.MaxDeaths, DefaultMaxDeaths), cmp.Or(o.Replicas, 1)
	o.Retention, o.Lease = cmp.Or(o.Retention, DefaultRetention), cmp.Or(o.Lease, DefaultLease)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Store keeps the jobs. Its methods may be called from several goroutines. A change that a
// method reports as done is on disk.
type Store struct {
	o      Options
	log    *slog.Logger
	folder folder
	lock   *flock.Flock
	server *server.Server // nil where it is another process
	conn   *nats.Conn
	salt   string // of ids that are made of idempotency keys

	js                     jetstream.JetStream
	jobs, leases, previews jetstream.KeyValue
	index                  *index
	connection             signal // it was lost and is there again

	creating sync.Mutex      // held while the queue's length is compared with its limit
	ctx      context.Context // ends with Close
	end      context.CancelFunc
	tasks    sync.WaitGroup
}

// Open opens the store of a data folder. Errors: ErrLocked, ErrData, ErrUnavailable.
func Open(ctx context.Context, o Options) (*Store, error) {
	s := &Store{o: o.withDefaults()}
	s.log = s.o.Log
	s.ctx, s.end = context.WithCancel(context.Background())
	if err := s.openAll(ctx); err != nil {
		s.Close()
		return nil, err
	}
	s.tasks.Go(s.keepOrder)
	return s, nil
}

func (s *Store) openAll(ctx context.Context) (err error) {
	if s.folder, err = makeFolder(s.o.Dir); err != nil {
		return err
	}
	if err := s.lockFolder(); err != nil {
		return err
	}
	if err := s.connect(); err != nil {
		return err
	}
	if err := s.openBuckets(ctx); err != nil {
		return err
	}
	if err := s.claimData(ctx); err != nil {
		return err
	}
	if s.server != nil {
		// Nobody else has the folder, so whoever had a lease is gone.
		if err := s.dropLeases(ctx); err != nil {
			return err
		}
	}
	return s.startIndex(ctx)
}

// lockFile holds the number of the process that has a data folder to itself.
const lockFile = "lock"

// lockFolder locks the data folder: for this process alone where the queue is in it, and else
// together with other processes of the same queue.
func (s *Store) lockFolder() error {
	path := s.folder.path(lockFile)
	s.lock = flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600))
	try := s.lock.TryLock
	if s.o.NATS != "" {
		try = s.lock.TryRLock
	}
	ok, err := try()
	if err != nil {
		return fault.New(ErrData, nil, "the data folder %s cannot be locked: %w", s.folder.dir, err)
	}
	if !ok {
		s.lock = nil
		return lockedError(s.folder.dir, path)
	}
	if s.o.NATS != "" {
		return nil
	}
	if err := writePID(path); err != nil {
		return fault.New(ErrData, nil, "the data folder %s cannot be locked: %w", s.folder.dir, err)
	}
	return nil
}

// connect starts the server in this process, or connects to the one that is named.
func (s *Store) connect() (err error) {
	opts := []nats.Option{nats.Name("weft"), nats.ReconnectHandler(func(*nats.Conn) { s.connection.happen() }), nats.MaxReconnects(-1), nats.ReconnectWait(500 * time.Millisecond), nats.Timeout(5 * time.Second)}
	url := s.o.NATS
	if url == "" {
		if s.server, err = startServer(s.folder.path(queueFolder)); err != nil {
			return err
		}
		opts = append(opts, nats.InProcessServer(s.server))
	} else if s.o.Credentials != "" {
		opts = append(opts, nats.UserCredentials(s.o.Credentials))
	}
	if s.conn, err = nats.Connect(url, opts...); err != nil {
		return fault.New(ErrUnavailable, nil, "no NATS server answers at %s: %w", url, err)
	}
	return nil
}

// queueFolder is the server's folder within the data folder.
const queueFolder = "queue"

// startServer starts a NATS server that listens on no port and flushes every write before it
// confirms it.
func startServer(dir string) (*server.Server, error) {
	srv, err := server.NewServer(&server.Options{ServerName: "weft", DontListen: true, JetStream: true, StoreDir: dir, SyncAlways: true,
		NoLog: true, NoSigs: true, DisableJetStreamBanner: true})
	if err != nil {
		return nil, fault.New(ErrData, nil, "the queue in %s cannot be opened: %w", dir, err)
	}
	srv.Start()
	if !srv.ReadyForConnections(serverStart) || !srv.JetStreamEnabled() {
		srv.Shutdown()
		return nil, fault.New(ErrData, nil, "the queue in %s did not start within %v: is the folder writable, and is its disk full?", dir, serverStart)
	}
	return srv, nil
}

// serverStart is how long a server may take to read its folder.
const serverStart = time.Minute

// keptRevisions is how many revisions of a job are kept for readers of events who were away.
const keptRevisions = 16

// How long a request to the server may take: not longer than a lease, as long as that is sensible.
const leastTimeout, mostTimeout = 2 * time.Second, 5 * time.Second

// openBuckets opens the three buckets, or makes them.
func (s *Store) openBuckets(ctx context.Context) error {
	var err error
	if s.js, err = jetstream.New(s.conn, jetstream.WithDefaultTimeout(max(leastTimeout, min(mostTimeout, s.o.Lease)))); err != nil {
		return unavailable(err)
	}
	for _, b := range []struct {
		kv  *jetstream.KeyValue
		cfg jetstream.KeyValueConfig
	}{
		{&s.jobs, jetstream.KeyValueConfig{Bucket: "weft-jobs", Description: "jobs of weft, one entry each", History: keptRevisions}},
		{&s.leases, jetstream.KeyValueConfig{Bucket: "weft-leases", Description: "who lives, and which job it has", History: 1, TTL: s.o.Lease}},
		{&s.previews, jetstream.KeyValueConfig{Bucket: "weft-previews", Description: "small pictures of latents", History: 1}},
	} {
		b.cfg.Replicas = s.o.Replicas
		if *b.kv, err = s.js.CreateOrUpdateKeyValue(ctx, b.cfg); err != nil {
			return fault.New(ErrUnavailable, nil, "the queue's bucket %s cannot be opened: %w; it needs a NATS server with JetStream", b.cfg.Bucket, err)
		}
	}
	if s.server != nil {
		return syncFolders(s.folder.path(queueFolder))
	}
	return nil
}

// dataKey names the data folder that belongs to a queue.
const dataKey = "data"

// dataMark is what says that a queue and a data folder belong together.
type dataMark struct {
	ID   string `json:"id"`
	Salt string `json:"salt"`
}

// dataFile is the folder's part of the mark.
const dataFile = "id"

// claimData sees to it that the data folder is the one that belongs to the queue: a worker
// elsewhere with a folder of its own would find no state and leave its videos where nobody looks.
func (s *Store) claimData(ctx context.Context) error {
	own, err := s.folder.readOrMakeID(rand.Text())
	if err != nil {
		return err
	}
	mark := dataMark{ID: own, Salt: rand.Text()}
	raw, err := json.Marshal(mark)
	if err != nil {
		return err
	}
	_, err = s.jobs.Create(ctx, dataKey, raw)
	if err != nil && !errors.Is(err, jetstream.ErrKeyExists) {
		return unavailable(err)
	}
	e, err := s.jobs.Get(ctx, dataKey)
	if err != nil {
		return unavailable(err)
	}
	if err := json.Unmarshal(e.Value(), &mark); err != nil {
		return fault.New(ErrData, nil, "the queue's mark of its data folder cannot be read: %w", err)
	}
	if mark.ID != own {
		return fault.New(ErrData, nil, "the data folder %s does not belong to the queue at %s: all its processes share one folder, whose file %q holds %s, and this one's holds %s",
			s.folder.dir, cmp.Or(s.o.NATS, s.folder.path(queueFolder)), dataFile, mark.ID, own)
	}
	s.salt = mark.Salt
	return nil
}

// dropLeases ends all leases.
func (s *Store) dropLeases(ctx context.Context) error {
	keys, err := s.leases.Keys(ctx)
	if errors.Is(err, jetstream.ErrNoKeysFound) {
		return nil
	}
	for _, key := range keys {
		if err := s.leases.Purge(ctx, key); err != nil {
			return unavailable(err)
		}
	}
	return unavailable(err)
}

// startIndex begins to follow the buckets, and waits until what is there is known.
func (s *Store) startIndex(ctx context.Context) error {
	s.index = newIndex(s.o.Lease, func(key string, err error) {
		s.log.Error("a stored job cannot be read; it is left as it is", "key", key, "error", err)
	})
	for _, follow := range []struct {
		kv    jetstream.KeyValue
		apply func(jetstream.KeyValueEntry)
	}{{s.leases, s.index.applyLease}, {s.jobs, s.index.applyEntry}} {
		loaded := make(chan struct{})
		s.tasks.Go(func() { s.followBucket(s.ctx, follow.kv, loaded, follow.apply) })
		select {
		case <-loaded:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.tasks.Go(func() { s.index.followPlaces(s.ctx) })
	return nil
}

// Close ends the store, and the server in this process. Workers are ended before.
func (s *Store) Close() error {
	s.end()
	if s.index != nil {
		s.index.close()
	}
	if s.conn != nil {
		s.conn.Close()
	}
	s.tasks.Wait()
	if s.server != nil {
		s.server.Shutdown()
		s.server.WaitForShutdown()
	}
	if s.lock != nil {
		return s.lock.Unlock()
	}
	return nil
}

// Ready reports whether the store can be used: nil, or ErrUnavailable, or ErrClosed.
func (s *Store) Ready(ctx context.Context) error {
	if s.ctx.Err() != nil {
		return closedError()
	}
	_, err := s.jobs.Get(ctx, dataKey)
	return unavailable(err)
}

func closedError() error { return fault.New(ErrClosed, nil, "the queue was closed") }

// unavailable is an error of the queue's server; nil stays nil, and those of a context stay too.
func unavailable(err error) error {
	var known *fault.Error
	if err == nil || errors.As(err, &known) || errors.Is(err, context.Canceled) {
		return err
	}
	if errors.Is(err, nats.ErrConnectionClosed) {
		return closedError()
	}
	return fault.New(ErrUnavailable, nil, "the queue does not answer: %w; try again", err)
}
