package live

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/certplane/certplane/internal/api/certmanager"
)

// Index finds live challenges. It is safe for concurrent use.
type Index struct {
	mu      sync.RWMutex
	byUID   map[types.UID]*Challenge
	byToken map[string][]*Challenge // type HTTP-01
	byName  map[string][]*Challenge // type TLS-ALPN-01 by ServerName, the oldest first
	changed chan struct{}           // closed at the next change
}

// NewIndex returns an empty index.
func NewIndex() *Index {
	return &Index{
		byUID: map[types.UID]*Challenge{}, byToken: map[string][]*Challenge{}, byName: map[string][]*Challenge{},
		changed: make(chan struct{}),
	}
}

// Follow keeps the index up to date with the Challenges of a cache until ctx
// ends. Then the index is empty.
func (x *Index) Follow(ctx context.Context, from cache.Informers) error {
	informer, err := from.GetInformer(ctx, &acmev1.Challenge{})
	if err != nil {
		return fmt.Errorf("following Challenges: %w", err)
	}
	registration, err := informer.AddEventHandler(x.handler())
	if err != nil {
		return fmt.Errorf("following Challenges: %w", err)
	}
	<-ctx.Done()
	err = informer.RemoveEventHandler(registration)
	x.clear()
	return err
}

func (x *Index) handler() toolscache.ResourceEventHandler {
	set := func(object any) {
		if ch, ok := object.(*acmev1.Challenge); ok {
			x.Set(ch)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: set, UpdateFunc: func(_, object any) { set(object) },
		DeleteFunc: func(object any) {
			if gone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
				object = gone.Obj
			}
			if ch, ok := object.(*acmev1.Challenge); ok {
				x.Delete(ch.UID)
			}
		},
	}
}

// Set adds a Challenge while it is live, and removes it otherwise.
func (x *Index) Set(ch *acmev1.Challenge) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.remove(ch.UID)
	if isLive(ch) {
		x.add(of(ch))
	}
	x.wake()
}

// Delete removes a Challenge that no longer exists.
func (x *Index) Delete(uid types.UID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.remove(uid)
	x.wake()
}

func (x *Index) clear() {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.byUID)
	clear(x.byToken)
	clear(x.byName)
	x.wake()
}

// add, remove and wake: the caller holds mu.
func (x *Index) add(c Challenge) {
	x.byUID[c.UID] = &c
	if c.Type == certmanager.TypeTLSALPN01 {
		name := ServerName(c.Host)
		x.byName[name] = append(x.byName[name], &c)
		slices.SortStableFunc(x.byName[name], older)
		return
	}
	x.byToken[c.Token] = append(x.byToken[c.Token], &c)
}

func older(a, b *Challenge) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.UID, b.UID))
}

func (x *Index) remove(uid types.UID) {
	c := x.byUID[uid]
	if c == nil {
		return
	}
	delete(x.byUID, uid)
	without(x.byToken, c.Token, c)
	without(x.byName, ServerName(c.Host), c)
}

func without(all map[string][]*Challenge, key string, c *Challenge) {
	left := slices.DeleteFunc(slices.Clone(all[key]), func(other *Challenge) bool { return other == c })
	if len(left) == 0 {
		delete(all, key)
		return
	}
	all[key] = left
}

func (x *Index) wake() {
	close(x.changed)
	x.changed = make(chan struct{})
}

// Token returns the HTTP-01 challenges with a token, and a channel that is
// closed when the index changes.
func (x *Index) Token(token string) ([]Challenge, <-chan struct{}) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return copies(x.byToken[token]), x.changed
}

// ServerName returns the TLS-ALPN-01 challenges that are asked for by a name,
// the oldest first.
func (x *Index) ServerName(name string) []Challenge {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return copies(x.byName[strings.ToLower(name)])
}

func copies(all []*Challenge) []Challenge {
	var copied []Challenge
	for _, c := range all {
		copied = append(copied, *c)
	}
	return copied
}
