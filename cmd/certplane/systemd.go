package main

import (
	"context"

	"github.com/coreos/go-systemd/v22/daemon"
	"k8s.io/klog/v2"
)

// notifyReady tells systemd that this service has started. It does nothing in a
// process that is no service of Type=notify.
func notifyReady() { notifySystemd(daemon.SdNotifyReady) }

// notifyStopping tells systemd when ctx, the lifetime of this process's work, is
// over.
func notifyStopping(ctx context.Context) {
	context.AfterFunc(ctx, func() { notifySystemd(daemon.SdNotifyStopping) })
}

func notifySystemd(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		klog.ErrorS(err, "Cannot notify systemd", "state", state)
	}
}
