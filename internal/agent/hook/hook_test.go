package hook

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/agent/safepath"
)

var web = Volume{Namespace: "shop", Pod: "web", Volume: "tls", Dir: "/v/tls"}

func TestFor(t *testing.T) {
	for _, tt := range []struct {
		action Action
		want   bool
	}{
		{Action{Pod: "shop/web"}, true},
		{Action{Pod: "shop/web", Volume: "tls"}, true},
		{Action{Pod: "shop/web", Volume: "other"}, false},
		{Action{Pod: "shop/we"}, false},
		{Action{Pod: "default/web"}, false},
	} {
		if got := tt.action.For(web); got != tt.want {
			t.Errorf("%+v is for the volume: %v", tt.action, got)
		}
	}
}

func TestValidate(t *testing.T) {
	good := Action{Pod: "a/b", Program: Program{Command: []string{"true"}}}
	tests := []struct {
		reason, want string
		edit         func(*Action)
	}{
		{"a command", "", func(*Action) {}},
		{"a signal", "", func(a *Action) { *a = Action{Pod: "a/b", Program: Program{Signal: "HUP", PIDFile: "/p"}} }},
		{"no pod", "pod: ", func(a *Action) { a.Pod = "" }},
		{"both", "command and signal", func(a *Action) { a.Signal, a.PIDFile = "HUP", "/p" }},
		{"nothing to do", "command and signal", func(a *Action) { a.Command = nil }},
		{"no program", "command: ", func(a *Action) { a.Command = []string{""} }},
		{"a signal to nobody", "signal and pidFile", func(a *Action) { *a = Action{Pod: "a/b", Program: Program{Signal: "HUP"}} }},
		{"a signal that kills", "signal: unknown value", func(a *Action) { *a = Action{Pod: "a/b", Program: Program{Signal: "KILL", PIDFile: "/p"}} }},
		{"a negative time", "timeout: ", func(a *Action) { a.Timeout = metav1.Duration{Duration: -1} }},
	}
	for _, tt := range tests {
		action := good
		tt.edit(&action)
		err := action.Validate()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.reason, err, tt.want)
		}
	}
}

func TestCommand(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	action := Action{Program: Program{Command: []string{"/bin/sh", "-c", `echo "$CERTPLANE_NAMESPACE $CERTPLANE_POD $CERTPLANE_VOLUME $CERTPLANE_DIR" >"$0"`, out}}}
	if err := action.Do(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(out); err != nil || string(data) != "shop web tls /v/tls\n" {
		t.Errorf("the command knows %q, %v", data, err)
	}
	err := Action{Program: Program{Command: []string{"/bin/sh", "-c", "echo a secret; exit 7"}}}.Do(t.Context(), web)
	if err == nil || !strings.Contains(err.Error(), "exit status 7") || strings.Contains(err.Error(), "secret") {
		t.Errorf("a command that fails: %v", err)
	}
	slow := Action{Program: Program{Command: []string{"sleep", "600"}, Timeout: metav1.Duration{Duration: 10 * time.Millisecond}}}
	if err := slow.Do(t.Context(), web); err == nil || !strings.Contains(err.Error(), "killed after 10ms") {
		t.Errorf("a command that takes too long: %v", err)
	}
}

// sleeper starts a process of a user; -1 is the user of this process.
func sleeper(t *testing.T, uid int) *exec.Cmd {
	t.Helper()
	process := exec.Command("sleep", "600")
	if uid >= 0 {
		process.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = process.Process.Kill() // fails if the test has ended it
		_ = process.Wait()
	})
	return process
}

// A user who owns a PID file can have signals sent to the user's own processes,
// and to no others.
func TestWhoseProcess(t *testing.T) {
	const user, other = 65534, 65533
	of := func(uids ...uint32) []safepath.Stranger {
		var all []safepath.Stranger
		for _, uid := range uids {
			all = append(all, safepath.Stranger{UID: uid, Path: "/run/x"})
		}
		return all
	}
	for _, tt := range []struct {
		reason    string
		strangers []safepath.Stranger
		process   owner
		ok        bool
	}{
		{"root's file", nil, owner{0, 0}, true},
		{"a user's file, the user's process", of(user), owner{user, user}, true},
		{"a program that has root's rights for a while", of(user), owner{user, 0}, true},
		{"a user's file, root's process", of(user), owner{0, 0}, false},
		{"a user's file, another's process", of(user), owner{other, other}, false},
		{"a file and a folder of two users", of(user, other), owner{user, user}, false},
	} {
		if err := checkOwner(tt.strangers, tt.process); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.reason, err)
		}
	}

	if os.Geteuid() != 0 {
		t.Skip("only root can give files and processes to other users")
	}
	ours, theirs := sleeper(t, -1), sleeper(t, user)
	dir := t.TempDir()
	file := filepath.Join(dir, "pid")
	action := Action{Program: Program{Signal: "TERM", PIDFile: file}}
	send := func(pid, fileOwner, dirOwner int) error {
		t.Helper()
		if err := os.WriteFile(file, fmt.Appendln(nil, pid), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Chown(file, fileOwner, -1), os.Chown(dir, dirOwner, -1)); err != nil {
			t.Fatal(err)
		}
		return action.Do(t.Context(), web)
	}
	const want = "belongs to user 65534, so the process must belong to this user, but it belongs to user 0"
	if err := send(ours.Process.Pid, user, 0); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a user's file with a number of root's: %v", err)
	}
	if err := send(ours.Process.Pid, 0, user); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a user's folder with a number of root's: %v", err)
	}
	if err := send(theirs.Process.Pid, user, user); err != nil {
		t.Error(err)
	}
	if err := theirs.Wait(); err == nil || err.Error() != "signal: terminated" {
		t.Errorf("the user's process ended with %v", err)
	}
	if err := send(ours.Process.Pid, 0, 0); err != nil {
		t.Error(err)
	}
	if err := ours.Wait(); err == nil || err.Error() != "signal: terminated" {
		t.Errorf("root's process ended with %v", err)
	}
}

func TestSignal(t *testing.T) {
	victim := sleeper(t, -1)
	file := filepath.Join(t.TempDir(), "pid")
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	action := Action{Program: Program{Signal: "TERM", PIDFile: file}}
	for _, content := range []string{"", "-1", "0", "1", "x"} {
		write(content)
		if err := action.Do(t.Context(), web); err == nil || !strings.Contains(err.Error(), "no process number") {
			t.Errorf("a file with %q: %v", content, err)
		}
	}
	write(fmt.Sprintf("%d\n", victim.Process.Pid))
	for _, mode := range []os.FileMode{0o620, 0o602} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		if err := action.Do(t.Context(), web); err == nil || !strings.Contains(err.Error(), "users other than its owner") {
			t.Errorf("a file with mode %o: %v", mode, err)
		}
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := action.Do(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	if err := victim.Wait(); err == nil || err.Error() != "signal: terminated" {
		t.Errorf("the process ended with %v", err)
	}
	if err := action.Do(t.Context(), web); err == nil {
		t.Error("a signal to a process that is gone succeeds")
	}
}
