package slow

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/grpclog"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/certplane/certplane/internal/apitest"
)

var (
	certplaneFlag = flag.String("certplane", "", "The program that is tested. Without it, nothing is tested.")
	sharesFlag    = flag.String("shares", "10", "Percentages of one core, separated by commas.")
	requestsFlag  = flag.String("requests", "2000", "Numbers of stored requests, separated by commas.")
	delayFlag     = flag.Duration("delay", 3*time.Second, "How long a webhook takes for a definition; less than 30s.")
	awayFlag      = flag.Duration("away", time.Minute, "How long etcd is away.")
	patienceFlag  = flag.Duration("patience", 15*time.Minute, "How long anything may take.")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *certplaneFlag == "" {
		fmt.Println("slow: no program was named with -certplane, so nothing was tested; 'make test-slow' names it")
		os.Exit(0)
	}
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard)) // etcd's, in this process
	path, err := filepath.Abs(*certplaneFlag)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		fmt.Println("slow: -certplane:", err)
		os.Exit(1)
	}
	*certplaneFlag = path
	os.Exit(m.Run())
}

// numbers returns the numbers of a flag.
func numbers(t *testing.T, text string) []int {
	t.Helper()
	var all []int
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 1 {
			t.Fatalf("%q is not a list of numbers above 0, such as 5,10", text)
		}
		all = append(all, n)
	}
	return all
}

// server is a certplane in a separate process. It can be started again after a stop.
type server struct {
	// dir is the current folder of all commands; data is the data directory.
	dir, data string
	args      []string

	command *exec.Cmd
	ended   chan struct{} // closed when the process has ended
	release func()        // lets the process run all the time again
	groups  []string      // control groups that were made
}

func newServer(t *testing.T, args ...string) *server {
	t.Helper()
	dir := t.TempDir()
	s := &server{dir: dir, data: filepath.Join(dir, "data"), args: append([]string{"serve", "--data-dir", "data", "--listen", apitest.FreeAddress(t)}, args...)}
	t.Cleanup(func() {
		if s.command != nil && s.alive() {
			s.release()
			_ = s.command.Process.Kill()
			<-s.ended
		}
		for _, group := range s.groups {
			_ = os.Remove(group)
		}
	})
	return s
}

// start starts the process with a share of one core in percent, 0 for no limit, and
// returns at once.
func (s *server) start(t *testing.T, share int) {
	t.Helper()
	group := s.newGroup(t, share)
	s.command = exec.Command(*certplaneFlag, s.args...)
	if group != "" {
		s.command = exec.Command("/bin/sh", append([]string{"-c", `echo $$ > "$0/cgroup.procs" && exec "$@"`, group, *certplaneFlag}, s.args...)...)
	}
	s.command.Dir = s.dir
	var files [2]*os.File
	for i, name := range []string{"out", "log"} {
		file, err := os.Create(filepath.Join(s.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		files[i] = file
	}
	s.command.Stdout, s.command.Stderr = files[0], files[1]
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	s.ended, s.release = ended, func() {}
	if share > 0 && group == "" {
		s.release = dutyCycle(s.command.Process, share)
	}
	command := s.command
	go func() { _ = command.Wait(); close(ended) }()
}

// startReady starts the process and waits until it announces that it is ready.
func (s *server) startReady(t *testing.T, share int) {
	t.Helper()
	began := time.Now()
	s.start(t, share)
	s.until(t, "the server is ready", s.announced)
	t.Logf("ready after %v", time.Since(began).Round(time.Second))
}

func (s *server) announced() error {
	if text, _ := os.ReadFile(filepath.Join(s.dir, "out")); !bytes.Contains(text, []byte("certplane is ready")) {
		return fmt.Errorf("standard output does not say so: %q", text)
	}
	return nil
}

func (s *server) alive() bool {
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// until waits, while the process lives, until try returns nil.
func (s *server) until(t *testing.T, what string, try func() error) {
	t.Helper()
	for end := time.Now().Add(*patienceFlag); ; time.Sleep(100 * time.Millisecond) {
		err := try()
		switch {
		case err == nil:
			return
		case !s.alive():
			t.Fatalf("the process has ended (%v) before %s; its log ends with\n%s", s.command.ProcessState, what, s.tail())
		case time.Now().After(end):
			t.Fatalf("not within %v: %s: %v; the log ends with\n%s", *patienceFlag, what, err, s.tail())
		}
	}
}

// tail returns the end of the log.
func (s *server) tail() string {
	text, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-6000):])
}

// stop asks the process to end, and waits.
func (s *server) stop(t *testing.T) {
	t.Helper()
	s.release()
	if err := s.command.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.ended:
	case <-time.After(*patienceFlag):
		t.Fatalf("the process does not stop; its log ends with\n%s", s.tail())
	}
	if !s.command.ProcessState.Success() {
		t.Fatalf("the process has ended with %v; its log ends with\n%s", s.command.ProcessState, s.tail())
	}
}

// run runs a command of certplane as the administrator and returns its output.
func (s *server) run(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, err := s.output(t, stdin, args...)
	if err != nil {
		t.Fatalf("certplane %s: %v\n%s\nthe server's log ends with\n%s", strings.Join(args, " "), err, out, s.tail())
	}
	return out
}

// output runs a command like run, but the command may fail.
func (s *server) output(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), *patienceFlag)
	defer cancel()
	command := exec.CommandContext(ctx, *certplaneFlag, args...)
	command.Dir, command.Stdin = s.dir, strings.NewReader(stdin)
	command.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(s.data, "admin.kubeconfig"))
	out, err := command.CombinedOutput()
	return string(out), err
}

// works runs the commands of the README.
func (s *server) works(t *testing.T, out string) {
	t.Helper()
	s.run(t, "", "request", "--signer", "server", "--dns", "web.example.com", "--out", out, "--approve")
	if _, err := os.Stat(filepath.Join(s.dir, out, "tls.crt")); err != nil {
		t.Error(err)
	}
	if roots := s.run(t, "", "trust", "server"); !strings.Contains(roots, "BEGIN CERTIFICATE") {
		t.Errorf("certplane trust server printed %q", roots)
	}
}

// get returns the status and the text at a path of the API; 0 if it does not answer.
func (s *server) get(path string) (status int, text string) {
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(s.data, "admin.kubeconfig"))
	if err != nil {
		return 0, err.Error()
	}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return 0, err.Error()
	}
	defer client.CloseIdleConnections()
	client.Timeout = 30 * time.Second
	response, err := client.Get(cfg.Host + path)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	var body bytes.Buffer
	_, _ = body.ReadFrom(response.Body)
	return response.StatusCode, body.String()
}

// ready returns an error that names the checks that are not ready.
func (s *server) ready() error {
	if status, text := s.get("/readyz"); status != http.StatusOK {
		return fmt.Errorf("/readyz: %d %s", status, text)
	}
	return nil
}

// newGroup creates a control group with a share of one core. It returns "" without a
// limit, or if it cannot create a group here.
func (s *server) newGroup(t *testing.T, share int) string {
	t.Helper()
	if share == 0 {
		return ""
	}
	name, quota := fmt.Sprintf("certplane-slow-%d-%d", os.Getpid(), time.Now().UnixNano()), strconv.Itoa(share*1000)
	var failed error
	for _, version := range []struct{ root, file, value string }{
		{"/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", quota},
		{"/sys/fs/cgroup", "cpu.max", quota + " 100000"},
	} {
		group := filepath.Join(version.root, name)
		if failed = os.Mkdir(group, 0o755); failed != nil {
			continue
		}
		s.groups = append(s.groups, group)
		// A file that does not exist cannot be made there.
		if failed = os.WriteFile(filepath.Join(group, version.file), []byte(version.value), 0o644); failed == nil {
			return group
		}
	}
	t.Logf("no control group for the processor's time (%v): the process is stopped and continued instead", failed)
	return ""
}

// dutyCycle lets a process run for a share of the time until release is called.
func dutyCycle(process *os.Process, share int) (release func()) {
	const period = 100 * time.Millisecond
	done := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		run := period * time.Duration(share) / 100
		for {
			time.Sleep(run)
			_ = process.Signal(syscall.SIGSTOP)
			select {
			case <-done:
				_ = process.Signal(syscall.SIGCONT)
				return
			case <-time.After(period - run):
				_ = process.Signal(syscall.SIGCONT)
			}
		}
	})
	return sync.OnceFunc(func() { close(done); ended.Wait() })
}
