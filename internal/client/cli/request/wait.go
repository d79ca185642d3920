package request

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/client/cli/exit"
)

const relistDelay = time.Second

// wait watches the request until it is issued, and returns it. Otherwise it returns an
// error with the reason and the next step.
func (r *run) wait(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) (*certificatesv1.CertificateSigningRequest, error) {
	// The retries of the client library would write to the terminal.
	ctx = klog.NewContext(ctx, logr.Discard())

	w := &waiter{server: r.server, name: csr.Name, uid: csr.UID, last: csr, delay: relistDelay}
	err := w.follow(ctx)
	switch {
	case err == nil:
		return w.last, w.verdictError()
	case isLate(ctx):
		return nil, r.timeoutError(w)
	case ctx.Err() != nil:
		return nil, &exit.Error{
			Err:  fmt.Errorf("interrupted while waiting for %s", csr.Name),
			Code: exit.Interrupted,
			Next: []string{"The request is stored. To continue waiting:", "  " + r.again(csr.Name)},
		}
	default:
		return nil, exit.Advise("waiting for "+csr.Name, err)
	}
}

// waiter watches one request.
type waiter struct {
	server Requests
	name   string
	uid    types.UID
	// last is the last seen version of the request.
	last *certificatesv1.CertificateSigningRequest
	// delay is the pause after an error of the server.
	delay time.Duration
	// trouble is the last error of calling the server.
	trouble error
}

// errGone reports that the watch must start again with a list.
var errGone = errors.New("resource version is too old to watch from")

// follow returns nil when the request is in a final state. It continues after
// restarts of the server and losses of its history.
func (w *waiter) follow(ctx context.Context) error {
	for {
		done, err := w.listThenWatch(ctx)
		switch {
		case done:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case isFinal(err):
			return err
		case !errors.Is(err, errGone):
			w.trouble = err
		}
		if err := pause(ctx, w.delay); err != nil {
			return err
		}
	}
}

func (w *waiter) listThenWatch(ctx context.Context) (done bool, err error) {
	selector := fields.OneTermEqualSelector("metadata.name", w.name).String()
	list, err := w.server.List(ctx, metav1.ListOptions{FieldSelector: selector})
	if err != nil {
		w.trouble = cmp.Or(w.trouble, err) // an earlier error says more than a timeout
		return false, err
	}
	w.trouble = nil
	if len(list.Items) == 0 {
		return false, deletedError(w.name)
	}
	if done, err := w.see(&list.Items[0]); done || err != nil {
		return done, err
	}
	watcher := &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		options.FieldSelector = selector
		return w.server.Watch(ctx, options)
	}}
	retrying, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, watcher)
	if err != nil {
		return false, err
	}
	_, err = watchtools.UntilWithoutRetry(ctx, retrying, w.onEvent)
	return err == nil, err
}

func (w *waiter) onEvent(event watch.Event) (done bool, err error) {
	switch event.Type {
	case watch.Added, watch.Modified:
		csr, ok := event.Object.(*certificatesv1.CertificateSigningRequest)
		if !ok {
			return false, fmt.Errorf("watching %s: the server sent a %T", w.name, event.Object)
		}
		return w.see(csr)
	case watch.Deleted:
		return false, deletedError(w.name)
	case watch.Error:
		return false, watchError(event)
	}
	return false, nil
}

func (w *waiter) see(csr *certificatesv1.CertificateSigningRequest) (done bool, err error) {
	if csr.UID != w.uid {
		return false, &lostError{replacedError(w.name)}
	}
	w.last = csr
	switch certificates.Judge(csr).State {
	case certificates.Issued, certificates.Denied, certificates.Failed:
		return true, nil
	}
	return false, nil
}

// lostError reports that the request no longer exists.
type lostError struct{ error }

func deletedError(name string) error {
	return &lostError{fmt.Errorf("the request %s was deleted before a certificate was issued", name)}
}

func watchError(event watch.Event) error {
	err := apierrors.FromObject(event.Object)
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return errGone
	}
	return err
}

// isFinal reports whether waiting cannot resolve an error.
func isFinal(err error) bool {
	var lost *lostError
	if errors.As(err, &lost) {
		return true
	}
	var refusal apierrors.APIStatus
	if !errors.As(err, &refusal) {
		return false
	}
	code := refusal.Status().Code
	return code >= 400 && code < 500 && code != http.StatusTooManyRequests
}

// pause returns early with an error when ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
