package program

import (
	"context"
	"net"
	"os"

	"k8s.io/klog/v2"
)

// systemd notifies systemd of the state of a service of Type=notify (sd_notify(3)). The
// zero value sends nothing.
type systemd struct {
	socket string
}

// openSystemd returns the socket of systemd named in the environment. It removes the
// variable: the API server library would report the service as ready as soon as it
// listens, and commands of the agent are not services.
func openSystemd() (systemd, error) {
	const variable = "NOTIFY_SOCKET"
	s := systemd{socket: os.Getenv(variable)}
	return s, os.Unsetenv(variable)
}

// ready reports that the service has started.
func (s systemd) ready() { s.notify("READY=1") }

// stopWith reports the end of ctx, the lifetime of this process's work.
func (s systemd) stopWith(ctx context.Context) {
	context.AfterFunc(ctx, func() { s.notify("STOPPING=1") })
}

func (s systemd) notify(state string) {
	if s.socket == "" {
		return
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Net: "unixgram", Name: s.socket})
	if err != nil {
		klog.ErrorS(err, "Cannot notify systemd", "state", state)
		return
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(state)); err != nil {
		klog.ErrorS(err, "Cannot notify systemd", "state", state)
	}
}
