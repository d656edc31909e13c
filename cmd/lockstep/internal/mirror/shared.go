package mirror

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"time"

	"lockstep/blob"
	"lockstep/blob/s3"
	"lockstep/cmd/lockstep/internal/network"
	"lockstep/cmd/lockstep/internal/stateplace"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
	"lockstep/destination/share"
	"lockstep/internal/fetch"
	"lockstep/internal/lastrun"
	"lockstep/internal/mirrordir"
	"lockstep/storage/postgres"
)

// A Shared is a mirror in a bucket that several processes share, with its state in PostgreSQL.
type Shared struct {
	Client *fetch.Client
	State  State // of which this process may only read, except in a [Turn]

	place     stateplace.Place
	dest      string // address of the bucket
	state     *stateplace.Shared
	processes *postgres.Processes
	store     *mirrorBucket
	options   destination.Options
	closers   []func() error

	coordinated bool // the last run

	mu     sync.Mutex // guards what follows
	member *share.Member
	owner  *postgres.Owner // nil: another process is
}

// CheckShared refuses a mirror that cannot be shared.
func (o *Selection) CheckShared() error {
	if IsBucket(o.Dest) && strings.Contains(o.State, "://") {
		return nil
	}
	return term.Usage(errors.New("--shared is for mirrors in buckets, with their state in PostgreSQL"), "give DEST as s3://BUCKET/PREFIX and --state as postgres://user@host/database")
}

// OpenShared opens a mirror for one of several processes that share it.
func OpenShared(ctx context.Context, command string, sel *Selection, net *network.Options, do destination.Options, io term.IO) (_ *Shared, err error) {
	if err := sel.CheckShared(); err != nil {
		return nil, err
	}
	do.Jobs = net.Jobs
	if err := do.Validate(); err != nil {
		return nil, term.Usage(err, "")
	}
	s := &Shared{options: do}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.place, err = stateplace.Parse(sel.State, io.LookupEnv); err != nil {
		return nil, err
	}
	if s.Client, err = net.Client(sel.Source, io.LookupEnv, do.Logger); err != nil {
		return nil, err
	}
	s.closers = append(s.closers, func() error {
		s.Client.Close()
		return nil
	})
	if s.state, err = s.place.OpenShared(ctx, command, do.Logger); err != nil {
		return nil, err
	}
	s.closers = append(s.closers, s.state.Close)
	s.processes = s.state.DB.Processes()
	s.closers = append(s.closers, s.processes.Close)
	if err := s.openStore(sel.Dest, BucketClient{io.LookupEnv, net, do.Logger, command}); err != nil {
		return nil, err
	}
	if err := s.belongs(); err != nil {
		return nil, err
	}
	if err := s3.CheckConditions(ctx, s.store.Bucket); err != nil {
		return nil, explainConditions(err)
	}
	j := s.State.Journal
	if err := mirrordir.RememberHTTPS(s.Client, document{j, mirrordir.HTTPSHost}, do.Logger); err != nil {
		return nil, err
	}
	return s, s.Join(ctx) // last: its lease is not renewed before it takes part
}

func explainConditions(err error) error {
	if errors.Is(err, s3.ErrUnconditional) {
		return term.Usage(err, "use a service that honors them, or run one process at a time, without --shared")
	}
	return err
}

// openStore opens the bucket.
func (s *Shared) openStore(dest string, c BucketClient) error {
	scratch, err := blob.NewDir(s.state.Dir, blob.DirOptions{})
	if err != nil {
		return fmt.Errorf("open the state: %w", err)
	}
	s.closers = append(s.closers, scratch.Close)
	bucket, versions, err := openBuckets(dest, s.state.Dir, c, s.mayWrite)
	if err != nil {
		return err
	}
	if err := probeBucket(bucket); err != nil {
		return err
	}
	s.dest = bucket.String()
	s.store = &mirrorBucket{Bucket: bucket, seed: maphash.MakeSeed(), mayWrite: s.mayWrite}
	s.store.forget(true)
	j := s.state.DB.Journal()
	s.State = State{Store: s.store, Journal: j, Versions: versions, scratch: scratch, state: s.state.Dir, https: document{j, mirrordir.HTTPSHost},
		run: document{j, lastrun.Name}, mayWrite: s.mayWrite, Close: func() {}}
	return nil
}

// belongs refuses the state of another mirror.
func (s *Shared) belongs() error {
	whose, err := document{s.State.Journal, StateOf}.Read()
	if err != nil {
		return fmt.Errorf("open the state: %w", err)
	}
	if whose != nil {
		return belongs(s.place.String(), string(whose), s.dest)
	}
	return checkNoSource(s.State.Journal, s.place)
}

// mayWrite returns why this process must not write to the bucket any more. Before it has
// joined the others it writes only what tries out the service, under names of its own.
func (s *Shared) mayWrite() error {
	s.mu.Lock()
	member, owner := s.member, s.owner
	s.mu.Unlock()
	if member == nil {
		return nil
	}
	if err := member.MayWrite(); err != nil || owner == nil {
		return err
	}
	return owner.Err()
}

// Join makes this process one of those that share the mirror, for the first time or again.
// Nothing that it did before may be under way.
func (s *Shared) Join(ctx context.Context) error {
	m, err := share.Join(ctx, s.processes, s.Client, share.Options{Name: s.state.Name, Logger: s.options.Logger})
	if err != nil {
		return stateplace.Explain(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.member = m
	return nil
}

// Member returns this process among the others.
func (s *Shared) Member() *share.Member {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.member
}

// Destination returns a Destination for what other processes coordinate.
func (s *Shared) Destination() (*destination.Destination, error) { return s.destination(s.options) }

func (s *Shared) destination(do destination.Options) (*destination.Destination, error) {
	do.Scratch, do.Versions = s.State.scratch, s.State.Versions
	mirrordir.Harvest(&do, s.state.Dir, s.Client)
	return destination.New(s.store, s.State.Journal, s.Client, do)
}

// A Turn is the time in which this process is the coordinator.
type Turn struct {
	Run   *Run
	Token int64
	Pool  *share.Pool

	lost <-chan struct{} // closed when another process may have become the coordinator
	s    *Shared
	stop context.CancelFunc
	done sync.WaitGroup
}

// Turn makes this process the coordinator, unless another process is: then the error wraps
// [postgres.OwnedError].
func (s *Shared) Turn(ctx context.Context) (*Turn, error) {
	owner, err := s.state.Own(ctx)
	if err != nil {
		return nil, err
	}
	t := &Turn{Token: owner.Token(), s: s, stop: func() {}}
	s.mu.Lock()
	s.owner = owner
	s.mu.Unlock()
	if err := t.begin(ctx, owner); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func (t *Turn) begin(ctx context.Context, owner *postgres.Owner) error {
	s := t.s
	t.Pool = share.NewPool(s.Member(), t.Token)
	if err := t.Pool.Begin(ctx); err != nil {
		return err
	}
	if err := s.belongs(); err != nil {
		return err
	}
	err := document{s.State.Journal, StateOf}.Write([]byte(s.dest))
	if err != nil {
		return err
	}
	s.store.forget(false)
	s.store.others.Store(t.Pool)
	t.lost = owner.Lost()
	if t.Run, err = t.Open(s.options); err != nil {
		return err
	}
	var within context.Context
	within, t.stop = context.WithCancel(context.WithoutCancel(ctx))
	t.done.Go(func() { t.Pool.Run(within) })
	return nil
}

// Open returns a Run with options for the Destination. What it has in common with others of the
// process is closed with that.
func (t *Turn) Open(do destination.Options) (*Run, error) {
	do.Jobs, do.Share = t.s.options.Jobs, t.Pool
	dest, err := t.s.destination(do)
	if err != nil {
		return nil, err
	}
	state := t.s.State
	state.lost = t.lost
	return &Run{State: &state, Client: t.s.Client, Dest: dest}, nil
}

// Add adds to the report of a run what other processes have done for it.
func (t *Turn) Add(r *destination.Report) {
	requests, bytes := t.Pool.Traffic()
	r.Requests += requests
	r.Bytes += bytes
	all := r.By.Request
	r.Shared = &destination.SharedReport{Processes: t.Pool.Workers() + 1, Fetched: all, Coordinator: max(all-t.Pool.Fetched(), 0)}
	t.s.coordinated = true
}

// Close ends the turn: another process may be the coordinator.
func (t *Turn) Close() error {
	t.stop()
	t.done.Wait()
	t.s.store.others.Store(nil)
	t.s.store.forget(true)
	t.s.mu.Lock()
	owner := t.s.owner
	t.s.owner = nil
	t.s.mu.Unlock()
	return owner.Close()
}

// Fetched returns how many contents of a run this process has fetched.
func (s *Shared) Fetched(r *destination.SharedReport) int64 {
	if s.coordinated {
		return r.Coordinator
	}
	return s.Member().Committed()
}

// leaveTime is how long a process may take to say that it is gone.
const leaveTime = 2 * time.Second

// Close closes the mirror.
func (s *Shared) Close() error {
	var errs []error
	if m := s.Member(); m != nil {
		ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
		_ = m.Leave(ctx) // otherwise its lease ends
		cancel()
	}
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.closers[i]())
	}
	return errors.Join(errs...)
}
