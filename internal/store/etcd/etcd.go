// Package etcd runs the store of a standalone server inside its process.
package etcd

import (
	"cmp"
	"context"
	"errors"
	"expvar"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/certplane/certplane/internal/process/worker"
	"github.com/certplane/certplane/internal/store/storespace"
)

// maxSocketPath is the longest path that Linux accepts for a Unix socket:
// sun_path has 108 bytes, the last one a NUL (unix(7)).
const maxSocketPath = 107

// lateStart is how long Start waits for etcd's own start to finish after it was
// canceled.
const lateStart = 5 * time.Second

// Config configures the store.
type Config struct {
	// Dir holds the write-ahead log, the database and, when its path is short
	// enough, the client socket. It is made if it does not exist.
	Dir string
	// Quota is how many bytes are to be in use in the store at most; 0 is
	// DefaultQuota. Callers enforce it: etcd itself refuses to write only when its
	// file has more than twice as much.
	Quota int64
}

// DefaultQuota is the most that etcd recommends.
const DefaultQuota = 8 << 30

// Server is a running single-member etcd. It is safe for concurrent use.
type Server struct {
	member   *embed.Etcd
	endpoint string
	// tempDir holds the socket when Config.Dir is too long for it.
	tempDir  string
	limit    int64 // of the database file
	logLevel zap.AtomicLevel
	fatal    *fatalHook
	stop     sync.Once
	// reading is held by readers that bypass the member's own functions. Stop sets stopped,
	// which ends such reads.
	reading sync.RWMutex
	stopped bool
}

// Start starts etcd on a Unix socket that only the current user can reach and
// returns when it accepts requests. It fails when ctx ends. Every write that
// was acknowledged to a client has been synced to disk.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	socket, tempDir, err := socketPath(cfg.Dir)
	if err != nil {
		return nil, err
	}
	endpoint := url.URL{Scheme: "unix", Path: socket}
	s := &Server{
		endpoint: endpoint.String(),
		tempDir:  tempDir,
		logLevel: zap.NewAtomicLevelAt(zap.ErrorLevel),
		fatal:    newFatalHook(),
	}
	first := firstStart{dir: cfg.Dir}
	err = first.begin()
	if err == nil {
		err = checkLog(first.member())
	}
	var size int64
	if err == nil {
		size, err = fileSize(cfg.Dir)
	}
	s.limit = storespace.LimitFor(cmp.Or(cfg.Quota, DefaultQuota), size)
	if err == nil {
		err = s.start(ctx, s.embedConfig(cfg.Dir, endpoint))
	}
	if err == nil {
		err = first.done()
	}
	if err != nil {
		s.Stop()
		return nil, fmt.Errorf("starting etcd on the data in %s: %w", cfg.Dir, err)
	}
	return s, nil
}

// Endpoint is the address for etcd clients, such as unix:///data/etcd/client.sock.
func (s *Server) Endpoint() string { return s.endpoint }

// Connect returns a new client that calls the store's functions directly,
// without a connection. The caller closes it.
func (s *Server) Connect() *clientv3.Client { return v3client.New(s.member.Server) }

// Failed delivers the error after which the store cannot continue, for instance
// a full disk. Writes that were acknowledged before it are on disk.
func (s *Server) Failed() <-chan error { return s.fatal.errs }

// HasFailed reports whether the store cannot continue. Calls may not return
// then: the goroutine that met the error keeps etcd's own locks.
func (s *Server) HasFailed() bool { return s.fatal.fired() }

// Stop stops the store cleanly. It may be called more than once.
func (s *Server) Stop() {
	s.stop.Do(func() {
		// etcd logs the end of each listener as an error.
		s.logLevel.SetLevel(zap.FatalLevel)
		if s.member != nil && !s.fatal.fired() {
			if !s.isReady() {
				s.member.Server.HardStop() // Close waits for it to be ready
			}
			s.endReading()
			s.member.Close()
		}
		if s.tempDir != "" {
			os.RemoveAll(s.tempDir)
		}
	})
}

// start runs etcd's own start in a separate goroutine, because etcd ends the
// goroutine that meets an error it calls fatal, and panics on some damaged
// files.
func (s *Server) start(ctx context.Context, cfg *embed.Config) error {
	type result struct {
		member *embed.Etcd
		err    error
	}
	started := make(chan result, 1)
	starting.Lock()
	defer starting.Unlock()
	go func() {
		defer func() {
			if p := recover(); p != nil {
				started <- result{err: fmt.Errorf("the data is damaged, restore a backup: %v", p)}
			}
		}()
		member, err := embed.StartEtcd(cfg)
		started <- result{member, err}
	}()

	select {
	case r := <-started:
		if r.err != nil {
			return r.err
		}
		s.member = r.member
	case err := <-s.fatal.errs:
		return err
	case <-ctx.Done():
		// etcd's start cannot be canceled. It is short, and nothing must write to the
		// folder after start has returned.
		select {
		case r := <-started:
			s.member = r.member
		case <-s.fatal.errs:
		case <-time.After(lateStart):
		}
		return ctx.Err()
	}
	return s.waitReady(ctx)
}

// electPause is how often elect looks at the state of raft.
const electPause = time.Millisecond

// elect makes the only member of a store that exists elect itself at once. etcd waits for a random time first, up
// to half a second, for members that do not exist. The message is the one with which a leader
// hands over.
func (s *Server) elect(ctx context.Context) {
	member := s.member.Server
	if _, term := schema.ReadConsistentIndex(member.Backend().ReadTx()); term == 0 {
		return // a new store: its first election must not be earlier than etcd's own records
	}
	id := uint64(member.MemberID())
	now := &raftpb.Message{Type: raftpb.MsgTimeoutNow.Enum(), From: &id, To: &id}
	for member.Lead() == raft.None && worker.Sleep(ctx, electPause) {
		if hasApplied() {
			_ = member.Process(ctx, now) // it fails with ctx or the member alone
		}
	}
}

// hasApplied reports whether raft knows that all that is committed was applied. Before that,
// an election searches the log for changes of the membership, and panics if etcd has removed
// them in the meantime. etcd shows the state of the member that started last: starting is held
// during a start.
func hasApplied() bool {
	shown, ok := expvar.Get("raft.status").(expvar.Func)
	if !ok {
		return false // etcd then elects in its time
	}
	status, ok := shown.Value().(raft.Status)
	return ok && status.HardState != nil && status.GetCommit() > 0 && status.Applied >= status.GetCommit()
}

// starting is held while a member starts and is elected.
var starting sync.Mutex

func (s *Server) waitReady(ctx context.Context) error {
	electing, stop := context.WithCancel(ctx)
	defer stop()
	go s.elect(electing)
	select {
	case <-s.member.Server.ReadyNotify():
		return nil
	case <-s.member.Server.StopNotify():
		return errors.New("it stopped while starting")
	case err := <-s.member.Err():
		return err
	case err := <-s.fatal.errs:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Server) isReady() bool {
	select {
	case <-s.member.Server.ReadyNotify():
		return true
	default:
		return false
	}
}

// socketName is the socket in the folder of the store, or a link to it.
const socketName = "client.sock"

// socketPath returns a path inside dir if it is short enough for a socket.
// Otherwise it returns one in a private temporary directory, which the caller
// must remove, and makes a link to it in dir, for Local.
func socketPath(dir string) (socket, tempDir string, err error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", "", fmt.Errorf("resolving the etcd directory: %w", err)
	}
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return "", "", fmt.Errorf("making the etcd directory: %w", err)
	}
	path := filepath.Join(abs, socketName)
	if len(path) <= maxSocketPath {
		return path, "", nil
	}
	temp, err := os.MkdirTemp("", "certplane-etcd-")
	if err != nil {
		return "", "", fmt.Errorf("making a directory for the etcd socket: %w", err)
	}
	socket = filepath.Join(temp, socketName)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", "", fmt.Errorf("removing the former link to the etcd socket: %w", err)
	}
	if err := os.Symlink(socket, path); err != nil {
		return "", "", fmt.Errorf("making a link to the etcd socket: %w", err)
	}
	return socket, temp, nil
}

// embedConfig configures a cluster of one that listens on endpoint alone. A
// peer listener would be a second way to the data, without any use.
func (s *Server) embedConfig(dir string, endpoint url.URL) *embed.Config {
	cfg := embed.NewConfig()
	cfg.Dir = dir
	cfg.ListenClientUrls = []url.URL{endpoint}
	cfg.AdvertiseClientUrls = []url.URL{endpoint}
	cfg.ListenPeerUrls = nil
	cfg.EnableGRPCGateway = false
	cfg.QuotaBackendBytes = s.limit
	// If elect cannot elect the member, it waits for a random part of this time. It is the
	// shortest that etcd accepts for its ticks of 100 ms; shorter ticks would use processor
	// time at rest.
	cfg.ElectionMs = 5 * cfg.TickMs
	// Entries are kept in memory for followers, of which there are none. But until the member
	// is elected, raft may search those that etcd has applied a moment ago.
	cfg.SnapshotCatchUpEntries = 100
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(s.newLogger())
	return cfg
}

// newLogger writes etcd's errors to standard error.
func (s *Server) newLogger() *zap.Logger {
	encoding := zap.NewProductionEncoderConfig()
	encoding.EncodeTime = zapcore.ISO8601TimeEncoder
	core := zapcore.NewCore(zapcore.NewJSONEncoder(encoding), zapcore.Lock(os.Stderr), s.logLevel)
	return zap.New(core, zap.WithFatalHook(s.fatal), zap.WithPanicHook(s.fatal)).Named("etcd")
}
