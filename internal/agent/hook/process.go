package hook

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/certplane/certplane/internal/agent/safepath"
)

// signal sends the signal to the process of pidFile. The process is opened
// before it is checked, so that another process that gets the same number does
// not receive the signal.
func (a Action) signal() error {
	pid, strangers, err := readPID(a.PIDFile)
	if err != nil {
		return fmt.Errorf("sending %s: %w", a.Signal, err)
	}
	process, err := os.FindProcess(pid)
	if err != nil {
		return fmt.Errorf("sending %s to process %d of %s: %w", a.Signal, pid, a.PIDFile, err)
	}
	defer func() { _ = process.Release() }()
	if len(strangers) > 0 {
		owner, err := ownerOf(pid)
		if err == nil {
			err = checkOwner(strangers, owner)
		}
		if err != nil {
			return fmt.Errorf("sending %s to process %d of %s: %w", a.Signal, pid, a.PIDFile, err)
		}
	}
	if err := process.Signal(signals[a.Signal]); err != nil {
		return fmt.Errorf("sending %s to process %d of %s: %w", a.Signal, pid, a.PIDFile, err)
	}
	return nil
}

// maxPIDFile is the largest size of a PID file, far more than a number needs.
const maxPIDFile = 1 << 10

// readPID returns the number in a file, and the users other than root and the agent's user
// who could have written it.
func readPID(path string) (int, []safepath.Stranger, error) {
	data, strangers, err := safepath.Rule{}.Read(path, maxPIDFile)
	if err != nil {
		return 0, nil, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || pid <= 1 { // 0, 1 and negative numbers are not the PID of one program
		return 0, nil, fmt.Errorf("%s has no process number", path)
	}
	return pid, strangers, nil
}

// owner holds the user that a process was started by, and the user that it can
// become again.
type owner struct{ real, saved uint32 }

func ownerOf(pid int) (owner, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if errors.Is(err, fs.ErrNotExist) {
		return owner{}, os.ErrProcessDone
	}
	if err != nil {
		return owner{}, fmt.Errorf("finding the user of the process: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		var effective uint32
		var o owner
		if n, _ := fmt.Sscanf(line, "Uid: %d %d %d", &o.real, &effective, &o.saved); n == 3 {
			return o, nil
		}
	}
	return owner{}, errors.New("finding the user of the process: its status has no Uid")
}

// checkOwner returns an error for a process that does not belong to the user who chose its
// number: the agent sends a signal for a user only if this user could also send it.
func checkOwner(strangers []safepath.Stranger, o owner) error {
	for _, stranger := range strangers {
		if stranger.UID != o.real && stranger.UID != o.saved {
			return fmt.Errorf("%s belongs to user %d, so the process must belong to this user, but it belongs to user %d: give both to one user, or the file and its folder to root",
				stranger.Path, stranger.UID, o.real)
		}
	}
	return nil
}
