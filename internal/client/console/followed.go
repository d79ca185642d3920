package console

import (
	"context"
	"crypto/sha256"
	"reflect"
	"slices"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/client/cli/inbox"
	"github.com/certplane/certplane/internal/inprocess"
	"github.com/certplane/certplane/internal/policy/requestkind"
	"github.com/certplane/certplane/internal/rights"
)

const (
	// maxFollowers limits the credentials whose requests are followed at once, maxOfOne
	// those of one user. Lists for further credentials are read from the API each time.
	maxFollowers = 32
	maxOfOne     = 2
	// followIdle is the time that requests are followed after the user's last page.
	followIdle = 5 * time.Minute
	// firstRead is the time that pages wait for the first complete read of all requests:
	// listing them in addition would take longer. Later pages do not wait.
	firstRead = 3 * time.Second
)

// requestKind is a kind of requests that is followed: there can be many, and lists of
// them are shown and explained all the time.
type requestKind struct {
	rights.Kind
	of *requestkind.Kind
}

var requestKinds = func() (all []requestKind) {
	for _, k := range requestkind.All {
		all = append(all, requestKind{inbox.KindOf(k), k})
	}
	return all
}()

// findKind returns the first kind of requests that is wanted; ok is false if none is.
func findKind(wanted func(requestKind) bool) (k requestKind, ok bool) {
	i := slices.IndexFunc(requestKinds, wanted)
	if i < 0 {
		return requestKind{}, false
	}
	return requestKinds[i], true
}

// followers follow the requests that users may list, each with a user's own credentials.
type followers struct {
	now func() time.Time

	mu  sync.Mutex
	all map[[sha256.Size]byte]*follower
}

// follower holds the requests that one user may list and watch. Before each read it
// checks with the API whether the user still has the right.
type follower struct {
	// begun is closed when the fields below are set.
	begun chan struct{}
	cache cache.Cache
	// kinds are the resources that are followed; none if the user may follow nothing.
	kinds map[string]toolscache.SharedIndexInformer

	name  string // of the user
	began time.Time
	stop  context.CancelFunc
	// used is when it was used last, idle ends it. Both are guarded by the mutex of
	// followers.
	used time.Time
	idle *time.Timer
}

// find returns the follower for the credentials of the user, and marks it as used; nil if
// none exists.
func (f *followers) find(u *user) *follower {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.use(u)
}

func (f *followers) use(u *user) *follower {
	found, ok := f.all[u.key]
	if ok {
		found.used = f.now()
	}
	return found
}

// of returns the follower for the credentials of the user, which the API must have
// accepted. It starts one if there is none, and returns nil if there are too many.
func (f *followers) of(u *user) *follower {
	f.mu.Lock()
	defer f.mu.Unlock()
	if found := f.use(u); found != nil {
		return found
	}
	if len(f.all) >= maxFollowers || f.count(u.name) >= maxOfOne {
		return nil
	}
	running, stop := context.WithCancel(context.Background())
	started := &follower{name: u.name, began: f.now(), begun: make(chan struct{}), stop: stop, used: f.now()}
	if f.all == nil {
		f.all = map[[sha256.Size]byte]*follower{}
	}
	f.all[u.key] = started
	started.idle = time.AfterFunc(followIdle, func() { f.end(u.key, started) })
	go started.run(running, u)
	return started
}

// count returns the number of a user's followers.
func (f *followers) count(name string) int {
	count := 0
	for _, of := range f.all {
		if of.name == name {
			count++
		}
	}
	return count
}

// end stops a follower that has not been used for long.
func (f *followers) end(key [sha256.Size]byte, of *follower) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if left := followIdle - f.now().Sub(of.used); left > 0 {
		of.idle.Reset(left)
		return
	}
	delete(f.all, key)
	of.stop()
}

// run follows what the user may list and watch, until ctx ends.
func (f *follower) run(ctx context.Context, u *user) {
	stored, kinds := u.startFollowing(ctx)
	f.cache, f.kinds = stored, kinds
	close(f.begun)
	if len(kinds) > 0 {
		_ = stored.Start(ctx) // it returns when ctx has ended
	}
}

// startFollowing returns a cache that is not started yet, and the resources that it will
// have.
func (u *user) startFollowing(ctx context.Context) (cache.Cache, map[string]toolscache.SharedIndexInformer) {
	objects := map[client.Object]cache.ByObject{}
	for _, k := range requestKinds {
		objects[k.of.New()] = cache.ByObject{UnsafeDisableDeepCopy: ptr.To(true)} // pages only read
	}
	stored, err := inprocess.NewCache(u.rest, cache.Options{
		Scheme: u.api.Scheme(), Mapper: u.api.RESTMapper(), ByObject: objects, ReaderFailOnMissingInformer: true,
		DefaultTransform: cache.TransformStripManagedFields(),
		// The user's rights or credentials have ended: pages say so.
		DefaultWatchErrorHandler: func(context.Context, *toolscache.Reflector, error) {},
	})
	if err != nil {
		return nil, nil // lists are read from the API
	}
	informers := make([]toolscache.SharedIndexInformer, len(requestKinds))
	var asking sync.WaitGroup // the user's first page waits for it
	for i, k := range requestKinds {
		asking.Go(func() { informers[i] = u.follow(ctx, stored, k) })
	}
	asking.Wait()
	kinds := map[string]toolscache.SharedIndexInformer{}
	for i, k := range requestKinds {
		if informers[i] != nil {
			kinds[resourceOf(k.Kind)] = informers[i]
		}
	}
	return stored, kinds
}

// follow adds a kind to a cache, if the server has it and the user may follow it.
func (u *user) follow(ctx context.Context, stored cache.Cache, k requestKind) toolscache.SharedIndexInformer {
	for _, verb := range []string{"list", "watch"} {
		allowed, err := u.api.MayI(ctx, authorizationv1.ResourceAttributes{Verb: verb, Group: k.Group, Version: k.of.Version, Resource: k.Resource})
		if err != nil || !allowed {
			return nil
		}
	}
	if u.api.List(ctx, k.of.NewList(), client.Limit(1)) != nil {
		return nil // the server does not have it in this version
	}
	signer := func(o client.Object) []string { return []string{inbox.SignerOf(o)} }
	if k.of.BySigner && stored.IndexField(ctx, k.of.New(), "spec.signerName", signer) != nil {
		return nil
	}
	informer, err := stored.GetInformer(ctx, k.of.New(), cache.BlockUntilSynced(false))
	if err != nil {
		return nil
	}
	indexed, _ := informer.(toolscache.SharedIndexInformer)
	return indexed
}

// followedClient lists requests from the follower, once all have been read. All other
// objects are read from the API.
type followedClient struct {
	client.Client
	user *user
}

// List implements client.Reader. Lists from a follower share their items: callers must
// not modify them.
func (c followedClient) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	k, ok := findKind(func(k requestKind) bool { return reflect.TypeOf(k.of.NewList()) == reflect.TypeOf(list) })
	if !ok {
		return c.Client.List(ctx, list, options...)
	}
	var wanted client.ListOptions
	wanted.ApplyOptions(options)
	if wanted.Limit > 0 {
		return c.Client.List(ctx, list, options...)
	}
	if f, _ := c.user.follower(ctx, k, wanted.Namespace); f != nil {
		return f.cache.List(ctx, list, options...)
	}
	return c.Client.List(ctx, list, options...) // the API may return the reason
}

var _ inbox.Sharer = userAPI{}

// Shared implements inbox.Sharer. A list would copy the head of each of many objects for
// one page of them.
func (a userAPI) Shared(ctx context.Context, kind rights.Kind, namespace string) ([]client.Object, bool) {
	k, known := findKind(func(k requestKind) bool { return k.Kind == kind })
	followed, ok := a.Client.(followedClient)
	if !known || !ok {
		return nil, false
	}
	_, informer := followed.user.follower(ctx, k, namespace)
	if informer == nil {
		return nil, false
	}
	stored := informer.GetStore().List()
	objects := make([]client.Object, 0, len(stored))
	for _, one := range stored {
		object, ok := one.(client.Object)
		if !ok {
			return nil, false
		}
		if namespace == "" || object.GetNamespace() == namespace {
			objects = append(objects, object)
		}
	}
	return objects, true
}

// follower returns what follows a kind for the user, and the informer of the kind, after the
// API has said that the user may list it. Both are nil if it has to be listed.
func (u *user) follower(ctx context.Context, k requestKind, namespace string) (*follower, toolscache.SharedIndexInformer) {
	allowed, err := u.api.MayI(ctx, authorizationv1.ResourceAttributes{
		Verb: "list", Group: k.Group, Version: k.of.Version, Resource: k.Resource, Namespace: namespace,
	})
	if err != nil || !allowed {
		return nil, nil
	}
	f := u.followers.of(u)
	if f == nil {
		return nil, nil
	}
	waiting, cancel := context.WithTimeout(ctx, f.began.Add(firstRead).Sub(u.now))
	defer cancel()
	informer := f.synced(waiting, resourceOf(k.Kind))
	if informer == nil {
		return nil, nil
	}
	return f, informer
}

// synced returns what follows a resource, once all of it has been read; nil if it is not
// followed, or if that is not so when ctx ends. f can be nil.
func (f *follower) synced(ctx context.Context, resource string) toolscache.SharedIndexInformer {
	if f == nil || !isDone(ctx, f.begun) {
		return nil
	}
	informer, ok := f.kinds[resource]
	if !ok || !isDone(ctx, informer.HasSyncedChecker().Done()) {
		return nil
	}
	return informer
}

// isDone reports whether something is done, at the latest when ctx ends.
func isDone(ctx context.Context, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
	}
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// notify reports changes of a resource until ctx ends, after they can be listed. It returns
// false if the resource is not followed.
func (f *follower) notify(ctx context.Context, resource string, changes chan<- struct{}) bool {
	informer := f.synced(ctx, resource)
	if informer == nil {
		return false
	}
	registered, err := informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(_ any, known bool) {
			if !known {
				report(changes)
			}
		},
		UpdateFunc: func(before, after any) {
			if before.(client.Object).GetResourceVersion() != after.(client.Object).GetResourceVersion() {
				report(changes)
			}
		},
		DeleteFunc: func(any) { report(changes) },
	})
	if err != nil {
		return false
	}
	context.AfterFunc(ctx, func() { _ = informer.RemoveEventHandler(registered) })
	return true
}
