package socket

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const (
	// firstFD is the first descriptor that systemd passes on, and maxFDs the
	// most of them that are looked at.
	firstFD, maxFDs = 3, 256
	// unnamed is the name of a descriptor without a name.
	unnamed = "unknown"
)

// Inherited are the sockets that the process was started with, as systemd passes
// them on (sd_listen_fds). The zero value has none.
type Inherited struct{ names []string }

// FromEnvironment returns the sockets that the variables LISTEN_PID, LISTEN_FDS and
// LISTEN_FDNAMES describe. It returns none if they are for a process other than pid.
func FromEnvironment(getenv func(string) string, pid int) Inherited {
	if owner, err := strconv.Atoi(getenv("LISTEN_PID")); err != nil || owner != pid {
		return Inherited{}
	}
	count, err := strconv.Atoi(getenv("LISTEN_FDS"))
	if err != nil || count < 1 || count > maxFDs {
		return Inherited{}
	}
	names := strings.Split(getenv("LISTEN_FDNAMES"), ":")
	if len(names) != count {
		names = slices.Repeat([]string{unnamed}, count)
	}
	return Inherited{names: names}
}

// listeners returns the listeners with a name; systemd can pass several.
func (i Inherited) listeners(name string) ([]net.Listener, error) {
	var all []net.Listener
	for n, has := range i.names {
		if has != name {
			continue
		}
		l, err := fromFD(firstFD + n)
		if err != nil {
			Close(all)
			return nil, err
		}
		all = append(all, l)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("the process was not started with a socket of this name, but with %s", i.describe())
	}
	return all, nil
}

// fromFD returns a listener with a copy of the descriptor. The inherited descriptor stays
// open, so that the listener can be opened again.
func fromFD(fd int) (net.Listener, error) {
	own, err := syscall.Dup(fd)
	if err != nil {
		return nil, fmt.Errorf("using descriptor %d: %w", fd, err)
	}
	syscall.CloseOnExec(fd)
	syscall.CloseOnExec(own)
	file := os.NewFile(uintptr(own), "descriptor "+strconv.Itoa(fd))
	defer file.Close() // FileListener has made one more
	l, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("using descriptor %d, which is not a listening socket: %w", fd, err)
	}
	return l, nil
}

func (i Inherited) describe() string {
	if len(i.names) == 0 {
		return "none"
	}
	return strings.Join(i.names, ", ")
}
