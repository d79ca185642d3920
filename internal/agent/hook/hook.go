// Package hook notifies the program that uses a volume that its files are new.
package hook

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// defaultTimeout is the time limit of a command without a timeout.
const defaultTimeout = 30 * time.Second

// Action is an action after a refresh. It comes only from the agent's own configuration:
// the right to write to the API, or to the folder of manifests, is not enough to run a
// command on the host.
type Action struct {
	// pod is the manifest that it is for, as NAMESPACE/NAME.
	Pod string `json:"pod"`
	// volume limits it to one volume of the pod. Default: all.
	Volume string `json:"volume,omitempty"`
	Program
}

// Program is the action that notifies a program of new files.
type Program struct {
	// command is a program and its arguments. It is run without a shell. It
	// gets CERTPLANE_NAMESPACE, CERTPLANE_POD, CERTPLANE_VOLUME, CERTPLANE_DIR
	// and CERTPLANE_CHANGE (certificate, list or both), and runs as the agent's
	// user. Set it or signal.
	Command []string `json:"command,omitempty"`
	// signal is sent to the process whose number is in pidFile: HUP, INT, TERM,
	// QUIT, USR1 or USR2.
	Signal string `json:"signal,omitempty"`
	// pidFile belongs to signal. Neither it nor a folder on the way to it may
	// be writable for a group or all users, who could direct the signal to any
	// process. If one of them belongs to a user other than root and the agent's
	// user, the process must belong to the same user.
	PIDFile string `json:"pidFile,omitempty"`
	// timeout is how long command may take before it is killed. Default: 30s.
	Timeout metav1.Duration `json:"timeout,omitempty"`
}

// signals are the signals that programs take as "read your files again".
var signals = map[string]syscall.Signal{
	"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "TERM": syscall.SIGTERM,
	"QUIT": syscall.SIGQUIT, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2,
}

// Validate reports the first value that cannot work, by its field.
func (a Action) Validate() error {
	if strings.Count(a.Pod, "/") != 1 {
		return fmt.Errorf("pod: %q is not NAMESPACE/NAME", a.Pod)
	}
	return a.Program.Validate()
}

// Validate reports the first value that cannot work, by its field.
func (p Program) Validate() error {
	switch {
	case (len(p.Command) == 0) == (p.Signal == ""):
		return errors.New("command and signal: set one of them")
	case len(p.Command) > 0 && p.Command[0] == "":
		return errors.New("command: the program is missing")
	case (p.Signal == "") != (p.PIDFile == ""):
		return errors.New("signal and pidFile: set both or none")
	case p.Timeout.Duration < 0:
		return fmt.Errorf("timeout: %s must be more than 0", p.Timeout.Duration)
	}
	if _, known := signals[p.Signal]; p.Signal != "" && !known {
		return fmt.Errorf("signal: unknown value %q; known: HUP, INT, QUIT, TERM, USR1, USR2", p.Signal)
	}
	return nil
}

// String describes the action. It omits the arguments of a command, which can
// be secrets.
func (a Action) String() string {
	if a.Signal != "" {
		return a.Signal + " to the process of " + a.PIDFile
	}
	return a.Command[0]
}

// Key returns the same text for the same action, also after a restart.
func (a Action) Key() string {
	content, err := json.Marshal(a)
	if err != nil { // impossible: it came from JSON
		panic(err)
	}
	digest := sha256.Sum256(content)
	return hex.EncodeToString(digest[:8])
}

// Volume is a volume with new files.
type Volume struct {
	Namespace, Pod, Volume, Dir string
	Change                      Change
}

// Change names the new files of a volume.
type Change string

// The changes.
const (
	// Lists are revocation lists and no other files.
	Lists Change = "list"
	// Others are certificates and all files that are not revocation lists.
	Others Change = "certificate"
	// Both are revocation lists and other files.
	Both Change = "both"
)

// For reports whether the action applies to a volume.
func (a Action) For(v Volume) bool {
	return a.Pod == v.Namespace+"/"+v.Pod && (a.Volume == "" || a.Volume == v.Volume)
}

// Do runs the command or sends the signal.
func (a Action) Do(ctx context.Context, v Volume) error {
	if a.Signal != "" {
		return a.signal()
	}
	timeout := a.Timeout.Duration
	if timeout == 0 {
		timeout = defaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, a.Command[0], a.Command[1:]...)
	cmd.Env = append(os.Environ(),
		"CERTPLANE_NAMESPACE="+v.Namespace, "CERTPLANE_POD="+v.Pod, "CERTPLANE_VOLUME="+v.Volume, "CERTPLANE_DIR="+v.Dir, "CERTPLANE_CHANGE="+string(v.Change))
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.WaitDelay = time.Second // for child processes that keep the output open
	err := cmd.Run()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("running %s: killed after %s", a.Command[0], timeout)
	}
	if err != nil {
		// The output of the command is only for the log: many users may read
		// the status.
		klog.FromContext(ctx).Info("A command after a refresh has failed", "command", a.Command[0], "err", err, "said", end(said.String()))
		return fmt.Errorf("running %s: %w; the agent's log contains its output", a.Command[0], err)
	}
	return nil
}

// end returns the last kilobyte.
func end(said string) string {
	said = strings.TrimSpace(said)
	return said[max(0, len(said)-1024):]
}
