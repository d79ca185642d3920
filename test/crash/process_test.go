package crash

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"google.golang.org/grpc/grpclog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/certplane/certplane/internal/controller/clean"
	"github.com/certplane/certplane/internal/run/controllermanager"
	"github.com/certplane/certplane/internal/run/server"
)

// roleEnv makes the test binary run the role in it.
const roleEnv = "CERTPLANE_CRASH_TEST_ROLE"

const (
	// timeout bounds each wait for a process.
	timeout = time.Minute
	// retryPeriod is how often servers check the lease.
	retryPeriod = 300 * time.Millisecond
)

// role is the program that a process of the test binary runs: a server or an etcd.
type role struct {
	// Dir is its data directory.
	Dir string
	// Listen is where an etcd listens; empty for a server.
	Listen string
	// Etcd is the external etcd of a server, if it has one.
	Etcd string
	// Lease is the lease duration of a server with an external etcd.
	Lease time.Duration
	// ThreeSteps has it approve and sign requests only after they are stored.
	ThreeSteps bool
	// Clock is how far its clock is off.
	Clock time.Duration
	// ACME, if not nil, is where a server finds name servers and CAs.
	ACME *acmeRole
	// Front is where a server answers ACME clients; empty if it does not.
	Front string
}

func TestMain(m *testing.M) {
	if text := os.Getenv(roleEnv); text != "" {
		os.Exit(play(text))
	}
	// Clients log each attempt to reach a server that was killed.
	log.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
	os.Exit(m.Run())
}

func play(text string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var r role
	err := json.Unmarshal([]byte(text), &r)
	if err == nil && r.Clock != 0 {
		err = setClock(r.Clock)
	}
	go obey(os.Stdin)
	switch {
	case err != nil:
	case r.Listen != "":
		err = r.store(ctx)
	default:
		debug.SetGCPercent(400) // as in package apitest
		err = server.Run(ctx, r.config(), func(server.Ready) { fmt.Println("ready") })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// config keeps requests until a test deletes them, whatever the clock shows.
func (r role) config() server.Config {
	cfg := server.DefaultConfig()
	cfg.DataDir, cfg.Serving.Listen = r.Dir, "127.0.0.1:0"
	cfg.API.IssueOnCreate = !r.ThreeSteps
	cfg.PodSigners.Install = nil
	cfg.Cleaning = clean.Settings{PerRequester: clean.CapSettings{ExemptGroups: []string{}}}
	if r.ACME != nil {
		r.ACME.configure(&cfg)
	}
	if r.Front != "" {
		cfg.ACMEServer.Listen, cfg.ACMEServer.ExternalURL = r.Front, frontURL
	}
	if r.Etcd != "" {
		cfg.Etcd.Servers = []string{r.Etcd}
		cfg.LeaderElection = controllermanager.LeaseTimes{
			LeaseDuration: metav1.Duration{Duration: r.Lease},
			RenewDeadline: metav1.Duration{Duration: r.Lease * 2 / 3},
			RetryPeriod:   metav1.Duration{Duration: retryPeriod},
		}
	}
	return cfg
}

// store runs an etcd.
func (r role) store(ctx context.Context) error {
	endpoint, err := url.Parse(r.Listen)
	if err != nil {
		return err
	}
	cfg := embed.NewConfig()
	cfg.Dir = r.Dir
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*endpoint}, []url.URL{*endpoint}
	cfg.ListenPeerUrls = nil
	logging := zap.NewProductionConfig()
	logging.Level = zap.NewAtomicLevelAt(zap.ErrorLevel)
	logger, err := logging.Build()
	if err != nil {
		return err
	}
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(logger)
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	defer etcd.Close()
	select {
	case <-etcd.Server.ReadyNotify():
		fmt.Println("ready")
	case err := <-etcd.Err():
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-etcd.Err():
		return err
	}
}

// obey does to this process what its starter commands, and ends it when its
// starter has ended.
func obey(commands io.Reader) {
	lines := bufio.NewScanner(commands)
	for lines.Scan() {
		var command string
		var amount int64
		_, err := fmt.Sscan(lines.Text(), &command, &amount)
		switch {
		case err != nil:
		case command == "clock":
			err = setClock(time.Duration(amount))
		case command == "full":
			err = fillDisk(amount)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	os.Exit(1)
}

// process is a process that was started.
type process struct {
	command *exec.Cmd
	stdin   io.Writer
	log     tail
	ready   chan struct{} // closed when it has reported that it is ready
	ended   chan struct{} // closed when it has ended
	err     error         // how it has ended
}

// start starts a process with the role.
func start(t *testing.T, r role) *process {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{command: exec.Command(executable), ready: make(chan struct{}), ended: make(chan struct{})}
	p.command.Env = append(os.Environ(), roleEnv+"="+string(text))
	p.command.Stdout, p.command.Stderr = &firstWrite{done: p.ready}, &p.log
	if p.stdin, err = p.command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.err = p.command.Wait(); close(p.ended) }()
	t.Cleanup(p.kill)
	return p
}

func startReady(t *testing.T, r role) *process {
	t.Helper()
	p := start(t, r)
	select {
	case <-p.ready:
	case <-p.ended:
		t.Fatalf("the process ended before it was ready: %v\n%s", p.err, p.log.text())
	case <-time.After(timeout):
		t.Fatalf("the process did not get ready within %v\n%s", timeout, p.log.text())
	}
	return p
}

// kill is kill -9. It returns when the process is gone.
func (p *process) kill() {
	_ = p.command.Process.Kill()
	<-p.ended
}

func (p *process) stop(t *testing.T) {
	t.Helper()
	_ = p.command.Process.Signal(os.Interrupt)
	select {
	case <-p.ended:
	case <-time.After(timeout):
		t.Fatalf("the process did not stop within %v\n%s", timeout, p.log.text())
	}
	if p.err != nil {
		t.Errorf("stopping the process: %v\n%s", p.err, p.log.text())
	}
}

// tell commands the process to do something to itself; see obey.
func (p *process) tell(command string, amount int64) {
	_, _ = fmt.Fprintln(p.stdin, command, amount) // it may be gone
}

func (p *process) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// firstWrite closes done at the first write.
type firstWrite struct {
	done chan struct{}
	once sync.Once
}

func (w *firstWrite) Write(data []byte) (int, error) {
	w.once.Do(func() { close(w.done) })
	return len(data), nil
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	data []byte
}

// tailBytes is how much of a log is kept: more than a start takes.
const tailBytes = 64 << 10

func (l *tail) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.data = append(l.data, data...)
	l.data = l.data[max(0, len(l.data)-tailBytes):]
	return len(data), nil
}

func (l *tail) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.data)
}

var errNotHere = errors.New("not possible on this system")
