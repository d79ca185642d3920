package program

import (
	"context"
	"net"
	"os"

	"k8s.io/klog/v2"
)

// systemd tells systemd about a service of Type=notify (sd_notify(3)). The zero
// value tells nobody.
type systemd struct {
	socket string
}

// openSystemd returns where the environment says that systemd listens. It removes
// that from the environment: the API server library says that the service is
// ready as soon as it listens, and commands of the agent are no services.
func openSystemd() (systemd, error) {
	const variable = "NOTIFY_SOCKET"
	s := systemd{socket: os.Getenv(variable)}
	return s, os.Unsetenv(variable)
}

// ready says that the service has started.
func (s systemd) ready() { s.notify("READY=1") }

// stopWith says when ctx, the lifetime of this process's work, is over.
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
