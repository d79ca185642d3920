package console

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
)

// LivePath is the path of streams below Config.Base.
const LivePath = "live"

const (
	// maxStreams is the maximum number of live pages, maxOfUser the maximum per user.
	// Further pages show the state at the time they were opened.
	maxStreams = 200
	maxOfUser  = 12
	// streamTime is the duration of a stream. The browser then opens another one, for
	// which the user's rights are checked again.
	streamTime = 10 * time.Minute
	// calm is the minimum time between two messages.
	calm = time.Second
	// beat is the time between comments in the stream, which show proxies that the
	// connection is in use.
	beat = 20 * time.Second
)

// bounds limits concurrent work in total and per user.
type bounds struct {
	// limit is the total maximum, each the maximum per user.
	limit, each int

	mu  sync.Mutex
	all int
	of  map[string]int
}

// begin reports whether a user may start another one. If so, end must be called.
func (s *bounds) begin(user string) (end func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= s.limit || s.of[user] >= s.each {
		return nil, false
	}
	if s.of == nil {
		s.of = map[string]int{}
	}
	s.all++
	s.of[user]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all--
		if s.of[user]--; s.of[user] == 0 {
			delete(s.of, user)
		}
	}, true
}

// watchable are the resources whose changes are reported.
var watchable = func() map[string]schema.GroupVersionResource {
	all := map[string]schema.GroupVersionResource{
		"nodes": {Version: "v1", Resource: "nodes"},
		"pods":  {Version: "v1", Resource: "pods"},
		"clustertrustbundles.certificates.k8s.io":                    {Group: "certificates.k8s.io", Version: "v1", Resource: "clustertrustbundles"},
		"issuedcertificates." + inventoryv1alpha1.GroupVersion.Group: inventoryv1alpha1.GroupVersion.WithResource("issuedcertificates"),
	}
	for name, kind := range kinds {
		all[name] = kind.GroupVersion().WithResource(schema.ParseGroupResource(name).Resource)
	}
	return all
}()

// serveLive sends a message whenever an object of some resources that the user may watch
// has changed. The message does not describe the object: the page is read again.
func (u *user) serveLive(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), streamTime)
	defer cancel()
	changes := make(chan struct{}, 1)
	watching := 0
	objects, err := metadata.NewForConfig(u.rest)
	if err != nil {
		u.fail(w, r, http.StatusInternalServerError, err.Error())
		return
	}
	followed := u.followers.find(u)
	names := r.URL.Query()["of"]
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if followed.notify(ctx, name, changes) {
			watching++
		} else if resource, ok := watchable[name]; ok && watchAll(ctx, objects.Resource(resource), changes) == nil {
			watching++
		}
	}
	if watching == 0 {
		w.WriteHeader(http.StatusNoContent) // the browser does not ask again
		return
	}
	end, ok := u.streams.begin(u.name) // who it is has been verified now
	if !ok {
		http.Error(w, "Too many pages are open.", http.StatusTooManyRequests)
		return
	}
	defer end()
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	send := func(text string) bool {
		_, err := fmt.Fprint(w, text)
		return err == nil && flush.Flush() == nil
	}
	alive := time.NewTicker(beat)
	defer alive.Stop()
	for sent := send(": watching\n\n"); sent; {
		select {
		case <-ctx.Done():
			return
		case <-alive.C:
			u.followers.find(u) // it is in use
			sent = send(": watching\n\n")
		case <-changes:
			sent = send("data: changed\n\n")
			select {
			case <-ctx.Done():
				return
			case <-time.After(calm):
			}
		}
	}
}

// watchAll reports changes of objects until ctx ends or the server ends the watch. It
// returns an error if the user may not watch.
func watchAll(ctx context.Context, objects metadata.ResourceInterface, changes chan<- struct{}) error {
	now, err := objects.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return err
	}
	events, err := objects.Watch(ctx, metav1.ListOptions{ResourceVersion: now.ResourceVersion})
	if err != nil {
		return err
	}
	go func() {
		defer events.Stop()
		for event := range events.ResultChan() {
			if event.Type != watch.Bookmark {
				report(changes)
			}
		}
	}()
	return nil
}

// report announces a change, unless an earlier announcement was not read yet.
func report(changes chan<- struct{}) {
	select {
	case changes <- struct{}{}:
	default:
	}
}
