package csr_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	certificatehelper "k8s.io/client-go/util/certificate/csr"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/apitest"
)

func TestServerWatch(t *testing.T) {
	t.Parallel()
	w := start(t)
	t.Run("from a version", w.testWatchFromVersion)
	t.Run("selectors", w.testWatchSelectors)
	t.Run("one that begins to match", w.testWatchMatching)
	t.Run("list in a watch", w.testWatchList)
	t.Run("bookmarks", w.testWatchBookmarks)
	t.Run("wait for a certificate", w.testWaitForCertificate)
	t.Run("wait in vain", w.testWaitInVain)
}

func (w world) watch(t *testing.T, options metav1.ListOptions) watch.Interface {
	t.Helper()
	events, err := w.csrs().Watch(bounded(t), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(events.Stop)
	return events
}

// next returns the next event as "ADDED name", and its object.
func next(t *testing.T, events watch.Interface) (string, *csr) {
	t.Helper()
	event, ok := <-events.ResultChan() // closed when the context of the watch ends
	if !ok {
		t.Fatal("the watch has ended")
	}
	obj, ok := event.Object.(*csr)
	if !ok {
		t.Fatalf("%s %v", event.Type, event.Object)
	}
	return string(event.Type) + " " + obj.Name, obj
}

// expect reads as many events as want has, and compares them.
func expect(t *testing.T, events watch.Interface, want ...string) {
	t.Helper()
	var got []string
	for range want {
		event, _ := next(t, events)
		got = append(got, event)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func (w world) version(t *testing.T) string {
	t.Helper()
	list, err := w.csrs().List(bounded(t), metav1.ListOptions{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	return list.ResourceVersion
}

// later reports whether obj has a later version.
func later(t *testing.T, obj *csr, version string) bool {
	t.Helper()
	order, err := resourceversion.CompareResourceVersion(obj.ResourceVersion, version)
	if err != nil {
		t.Fatal(err)
	}
	return order > 0
}

// life changes a request through every endpoint.
func (w world) life(t *testing.T, name string, edits ...edit) {
	t.Helper()
	obj := w.create(t, name, edits...)
	obj = w.mustPut(t, mainEndpoint, changed(obj, labels("a", "b")))
	obj = w.mustPut(t, approvalEndpoint, changed(obj, conditions("Approved")))
	w.mustPut(t, statusEndpoint, changed(obj, certificate(chain(t))))
	if err := w.csrs().Delete(bounded(t), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (w world) testWatchFromVersion(t *testing.T) {
	w.create(t, "before")
	from := w.version(t)
	w.life(t, "life")
	events := w.watch(t, metav1.ListOptions{ResourceVersion: from})
	var last *csr
	var got []string
	for range 5 {
		event, obj := next(t, events)
		got, last = append(got, event), obj
	}
	if diff := cmp.Diff([]string{"ADDED life", "MODIFIED life", "MODIFIED life", "MODIFIED life", "DELETED life"}, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if typesOf(last) != "Approved" || len(last.Status.Certificate) == 0 || !later(t, last, from) {
		t.Errorf("the deleted object is not the last one: %v", last)
	}
	w.create(t, "after")
	expect(t, events, "ADDED after")
}

func (w world) testWatchSelectors(t *testing.T) {
	const other = "example.com/watched"
	from := w.version(t)
	for _, tc := range []metav1.ListOptions{
		{FieldSelector: "spec.signerName=" + other},
		{FieldSelector: "metadata.name=mine"},
		{FieldSelector: "metadata.name=mine,spec.signerName=" + other},
		{FieldSelector: "spec.signerName!=" + signerName},
		{LabelSelector: "team=a"},
	} {
		tc.ResourceVersion = from
		events := w.watch(t, tc)
		w.create(t, "theirs")
		w.create(t, "mine", signer(other), labels("team", "a"))
		for _, name := range []string{"theirs", "mine"} {
			if err := w.csrs().Delete(bounded(t), name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		expect(t, events, "ADDED mine", "DELETED mine")
		from = w.version(t)
	}
	_, err := w.csrs().Watch(bounded(t), metav1.ListOptions{FieldSelector: "status.certificate=x"})
	if got := statusOf(t, err); got.Code != http.StatusBadRequest || !strings.Contains(got.Message, "field label not supported: status.certificate") {
		t.Errorf("an unknown field: %v", got)
	}
}

// A watch with a selector shows objects that begin to match as added, and
// objects that no longer match as deleted.
func (w world) testWatchMatching(t *testing.T) {
	obj := w.create(t, "matching")
	events := w.watch(t, metav1.ListOptions{LabelSelector: "show=yes", ResourceVersion: w.version(t)})
	obj = w.mustPut(t, mainEndpoint, changed(obj, labels("show", "yes")))
	obj = w.mustPut(t, approvalEndpoint, changed(obj, conditions("Denied")))
	w.mustPut(t, statusEndpoint, changed(obj, labels("show", "no")))
	expect(t, events, "ADDED matching", "MODIFIED matching", "DELETED matching")
}

// A watch can start with a list, and mark the end of the list (KEP-3157).
func (w world) testWatchList(t *testing.T) {
	w.create(t, "list-a", signer("example.com/list"))
	w.create(t, "list-b", signer("example.com/list"))
	events := w.watch(t, metav1.ListOptions{
		FieldSelector: "spec.signerName=example.com/list", SendInitialEvents: ptr.To(true),
		AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	expect(t, events, "ADDED list-a", "ADDED list-b")
	event, obj := next(t, events)
	if event != "BOOKMARK " || obj.Annotations[metav1.InitialEventsAnnotationKey] != "true" || obj.ResourceVersion == "" {
		t.Errorf("the list does not end: %s %v", event, obj)
	}
	w.create(t, "list-c", signer("example.com/list"))
	expect(t, events, "ADDED list-c")
}

// A client that requests bookmarks gets the progress of the watch, at the
// latest before the watch times out.
func (w world) testWatchBookmarks(t *testing.T) {
	from := w.version(t)
	events := w.watch(t, metav1.ListOptions{
		FieldSelector: "metadata.name=nobody", AllowWatchBookmarks: true, ResourceVersion: from, TimeoutSeconds: ptr.To[int64](3),
	})
	w.create(t, "unwatched")
	event, obj := next(t, events)
	if event != "BOOKMARK " || !later(t, obj, from) {
		t.Errorf("got %s at %s, from %s", event, obj.ResourceVersion, from)
	}
	want := &csr{ObjectMeta: metav1.ObjectMeta{ResourceVersion: obj.ResourceVersion}}
	if diff := cmp.Diff(want, obj, emptyIsNil()); diff != "" {
		t.Errorf("a bookmark is only a version (-want +got):\n%s", diff)
	}
}

// waiter waits for a certificate as kubelets do.
type waiter struct {
	watching <-chan string // the query of its watch, once the watch has started
	answer   <-chan []byte
	failure  <-chan error
}

func (w world) wait(t *testing.T, name string, uid types.UID) waiter {
	t.Helper()
	watching, answer, failure := make(chan string, 1), make(chan []byte, 1), make(chan error, 1)
	cfg := w.Admin(t)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(r)
			if r.URL.Query().Get("watch") != "" && err == nil {
				select {
				case watching <- r.URL.RawQuery:
				default: // a second watch
				}
			}
			return response, err
		})
	})
	client := apitest.Client(t, cfg)
	ctx, cancel := context.WithCancel(bounded(t))
	t.Cleanup(cancel)
	go func() {
		data, err := certificatehelper.WaitForCertificate(ctx, client, name, uid)
		answer <- data
		failure <- err
	}()
	return waiter{watching, answer, failure}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (w world) testWaitForCertificate(t *testing.T) {
	obj := w.create(t, "wait")
	waiter := w.wait(t, "wait", obj.UID)
	if query := <-waiter.watching; !strings.Contains(query, "sendInitialEvents=true") {
		t.Errorf("the helper lists before it watches: %s", query)
	}
	issued := chain(t)
	obj = w.mustPut(t, approvalEndpoint, changed(obj, conditions("Approved")))
	w.mustPut(t, statusEndpoint, changed(obj, certificate(issued)))
	got, err := <-waiter.answer, <-waiter.failure
	if err != nil || !slices.Equal(got, issued) {
		t.Errorf("got %s, %v", got, err)
	}
}

func (w world) testWaitInVain(t *testing.T) {
	for _, tc := range []struct {
		reason string
		uid    types.UID // "" means the right one
		happen func(*csr) error
		want   string
	}{
		{"denied", "", func(obj *csr) error {
			_, err := put(t, w.admin, approvalEndpoint, changed(obj, timed("Because", "Denied")))
			return err
		}, "is denied, reason: Because"},
		{"failed", "", func(obj *csr) error {
			_, err := put(t, w.admin, statusEndpoint, changed(obj, timed("Because", "Failed")))
			return err
		}, "request failed, reason: Because"},
		{"deleted", "", func(obj *csr) error {
			return w.csrs().Delete(bounded(t), obj.Name, metav1.DeleteOptions{})
		}, `csr "deleted" was deleted`},
		{"replaced", "other", func(*csr) error { return nil }, `csr "replaced" changed UIDs`},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			obj := w.create(t, tc.reason)
			if tc.uid == "" {
				tc.uid = obj.UID
			}
			waiter := w.wait(t, tc.reason, tc.uid)
			<-waiter.watching
			if err := tc.happen(obj); err != nil {
				t.Fatal(err)
			}
			<-waiter.answer
			if err := <-waiter.failure; err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}
