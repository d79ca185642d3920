package etcd

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

func TestKeepsDataOverRestart(t *testing.T) {
	dir := t.TempDir()
	first := start(t, dir)
	if _, err := connect(t, first).Put(t.Context(), "/k", "v"); err != nil {
		t.Fatal(err)
	}
	first.Stop()

	second := start(t, dir)
	got, err := connect(t, second).Get(t.Context(), "/k")
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "v" {
		t.Errorf("after a restart /k = %v, want v", got.Kvs)
	}
}

func TestLongPathsGetASocketElsewhere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", maxSocketPath))
	s := start(t, dir)
	if _, err := connect(t, s).Put(t.Context(), "/k", "v"); err != nil {
		t.Fatal(err)
	}
	if s.tempDir == "" {
		t.Fatalf("the socket %s is too long for the system", s.Endpoint())
	}
	local, err := Local(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := local.Check(t.Context()); err != nil {
		t.Errorf("another process does not find the socket: %v", err)
	}
	s.Stop()
	if _, err := os.Stat(s.tempDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Stop left %s behind: %v", s.tempDir, err)
	}
}

func TestDamagedDataIsAnError(t *testing.T) {
	tests := []struct{ reason, file string }{
		{"a database that is none", "member/snap/db"},
		{"a log that is none", "member/wal/0000000000000000-0000000000000000.wal"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			dir := t.TempDir()
			start(t, dir).Stop()
			path := filepath.Join(dir, tt.file)
			junk := strings.Repeat("junk", 4096)
			if err := os.WriteFile(path, []byte(junk), 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := startWithin(t, dir)
			if err == nil {
				s.Stop()
				t.Fatal("Start accepted damaged data")
			}
			if !strings.Contains(err.Error(), dir) {
				t.Errorf("the error does not name the folder: %v", err)
			}
			// etcd keeps a log that it tries to repair as a .broken file.
			after, _ := os.ReadFile(path)
			broken, _ := os.ReadFile(path + ".broken")
			if string(after) != junk && string(broken) != junk {
				t.Errorf("Start did not keep the bytes of %s", tt.file)
			}
		})
	}
}

// The only member elects itself: it waits for no timeout. While a start applies its log, etcd
// removes what it has applied.
func TestElectsItself(t *testing.T) {
	dir := t.TempDir()
	for i := range 5 {
		s := &Server{logLevel: zap.NewAtomicLevelAt(zap.FatalLevel), fatal: newFatalHook()}
		socket, _, err := socketPath(dir)
		if err != nil {
			t.Fatal(err)
		}
		cfg := s.embedConfig(dir, url.URL{Scheme: "unix", Path: socket})
		if i > 0 {
			cfg.TickMs, cfg.ElectionMs = 10_000, 50_000 // the longest that etcd accepts
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		err = s.start(ctx, cfg)
		cancel()
		if err != nil {
			s.Stop()
			t.Fatalf("start %d: %v", i, err)
		}
		client := s.Connect()
		var writing sync.WaitGroup
		for range 8 {
			writing.Go(func() {
				for range 50 {
					_, _ = client.Put(t.Context(), "/k", "v") // only the entries of the log matter
				}
			})
		}
		writing.Wait()
		client.Close()
		s.Stop()
	}
}

// A first start that was interrupted leaves a log without the member's own
// entry, with which etcd waits forever.
func TestInterruptedFirstStartIsMadeAnew(t *testing.T) {
	dir := t.TempDir()
	keep := start(t, dir)
	if _, err := connect(t, keep).Put(t.Context(), "/k", "v"); err != nil {
		t.Fatal(err)
	}
	keep.Stop()

	if err := os.WriteFile(firstStart{dir}.marker(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	anew := start(t, dir)
	got, err := connect(t, anew).Get(t.Context(), "/k")
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Kvs) != 0 {
		t.Errorf("the interrupted start's data was used: %v", got.Kvs)
	}
	if _, err := os.Stat(firstStart{dir}.marker()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the marker of a first start stays after it: %v", err)
	}
}

// etcd logs an error that it cannot survive as fatal. The owner of the process
// must get that error, and the process must not end.
func TestFatalEntriesBecomeErrors(t *testing.T) {
	hook := newFatalHook()
	logger := zap.New(zapcore.NewNopCore(), zap.WithFatalHook(hook))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		logger.Fatal("failed to save", zap.Error(syscall.ENOSPC))
		t.Error("the goroutine went on after a fatal entry")
	}()
	<-ended
	if err := <-hook.errs; !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("error = %v, want the cause to be ENOSPC", err)
	}
	if !hook.fired() {
		t.Error("the hook does not remember that it fired")
	}
}

func start(t *testing.T, dir string) *Server {
	t.Helper()
	s, err := startWithin(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

func startWithin(t *testing.T, dir string) (*Server, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	return Start(ctx, Config{Dir: dir})
}

func connect(t *testing.T, s *Server) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Endpoint()}, DialTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}
