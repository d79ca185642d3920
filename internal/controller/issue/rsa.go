package issue

import (
	"context"
	"crypto"
	"errors"
	"runtime"
	"sync"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrl "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/issuance/wanted"
	"github.com/certplane/certplane/internal/process/worker"
	"github.com/certplane/certplane/internal/tenant/fairqueue"
)

// rsaKeys makes RSA keys for Certificates. Each takes a core for a tenth of a second or
// much longer. So a pass that needs one ends, and the next one begins when the key is
// made: other Certificates do not wait. It is safe for concurrent use.
type rsaKeys struct {
	*reconciler
	order *fairqueue.Handler // namespaces take turns
	cores *cores
	// wanted and made queue Certificates: those that need a key, and those that have it.
	wanted, made chan event.GenericEvent

	mu      sync.Mutex
	waiting map[types.NamespacedName]bool // for their key
	keys    *lru.Cache                    // rsaKey by name
}

// rsaKey is a key for the Certificate with a UID, or why it cannot be made.
type rsaKey struct {
	of  types.UID
	key crypto.Signer
	err error
}

// keptRSAKeys is the maximum number of keys that no pass has taken.
const keptRSAKeys = 100

// errNoKeyYet means that a pass ends because its key is being made.
var errNoKeyYet = errors.New("the RSA key is being made")

func newRSAKeys(r *reconciler) *rsaKeys {
	return &rsaKeys{
		reconciler: r, order: fairqueue.New(r.Clock), cores: newCores(runtime.GOMAXPROCS(0)),
		wanted: make(chan event.GenericEvent), made: make(chan event.GenericEvent),
		waiting: map[types.NamespacedName]bool{}, keys: lru.New(keptRSAKeys),
	}
}

// newKey makes the key of a Certificate, except an RSA key, which it takes.
func (k *rsaKeys) newKey(ctx context.Context, crt *cmv1.Certificate) (crypto.Signer, error) {
	if certmanager.KeyAlgorithm(&crt.Spec) == cmv1.RSAKeyAlgorithm {
		return k.take(ctx, crt)
	}
	return wanted.NewKey(&crt.Spec)
}

// take returns the key that was made for a Certificate. If there is none, it returns
// errNoKeyYet and has one made.
func (k *rsaKeys) take(ctx context.Context, crt *cmv1.Certificate) (crypto.Signer, error) {
	name := client.ObjectKeyFromObject(crt)
	k.mu.Lock()
	found, _ := k.keys.Get(name)
	k.keys.Remove(name)
	made, _ := found.(rsaKey)
	isMade := made.of == crt.UID && (made.err != nil || len(wanted.KeyDifferences(&crt.Spec, made.key.Public())) == 0)
	isNew := !isMade && !k.waiting[name]
	if isNew {
		k.waiting[name] = true
	}
	k.mu.Unlock()
	if isMade {
		return made.key, made.err
	}
	if isNew && !send(ctx, k.wanted, crt) {
		k.ended(name) // the next pass asks again
	}
	return nil, errNoKeyYet
}

// Reconcile makes the key of a Certificate.
func (k *rsaKeys) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	crt := &cmv1.Certificate{}
	err := k.objects.Get(ctx, request.NamespacedName, crt)
	if err == nil {
		defer send(ctx, k.made, crt)
		k.generate(ctx, request.NamespacedName, crt)
	}
	k.ended(request.NamespacedName)
	return reconcile.Result{}, client.IgnoreNotFound(err)
}

// ended notes that no key is being made for a Certificate.
func (k *rsaKeys) ended(name types.NamespacedName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.waiting, name)
}

func (k *rsaKeys) generate(ctx context.Context, name types.NamespacedName, crt *cmv1.Certificate) {
	defer k.cores.useIdle(ctx)()
	key, err := wanted.NewKey(&crt.Spec)
	k.keys.Add(name, rsaKey{crt.UID, key, err})
}

// newMaker returns the worker that makes the keys.
func (k *rsaKeys) newMaker(ctx context.Context) (ctrl.Controller, error) {
	return worker.New(ctx, "certificates-rsa-keys", k, worker.Options{
		Concurrency: k.cores.all, FirstPause: firstPause, LastPause: lastPause, Timeout: passTimeout,
	}, source.Channel(k.wanted, queuedBy(k.order.Priority)))
}

// queuedBy queues the objects of events.
func queuedBy(priority func(client.Object) int) handler.EventHandler {
	return handler.Funcs{GenericFunc: func(_ context.Context, e event.GenericEvent, q queue) {
		add(q, client.ObjectKeyFromObject(e.Object), priority(e.Object))
	}}
}

// send reports whether it has sent the Certificate before ctx ended.
func send(ctx context.Context, to chan<- event.GenericEvent, crt *cmv1.Certificate) bool {
	select {
	case to <- event.GenericEvent{Object: crt}:
		return true
	case <-ctx.Done():
		return false
	}
}

// cores counts what keeps the cores busy: passes, and keys that are being made.
type cores struct {
	all int

	mu      sync.Mutex
	changed sync.Cond
	busy    int
}

func newCores(all int) *cores {
	c := &cores{all: all}
	c.changed.L = &c.mu
	return c
}

// use counts a core as busy until the result is called.
func (c *cores) use() (end func()) {
	c.add(1)
	return func() { c.add(-1) }
}

func (c *cores) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy += n
	c.changed.Broadcast()
}

// maxIdleWait is how long a key waits for an idle core: passes must not hold it up forever.
const maxIdleWait = time.Second

// useIdle is use for a core that is idle, or that has been waited for long enough.
func (c *cores) useIdle(ctx context.Context) (end func()) {
	ctx, cancel := context.WithTimeout(ctx, maxIdleWait)
	defer cancel()
	defer context.AfterFunc(ctx, func() { c.add(0) })()
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.busy >= c.all && ctx.Err() == nil {
		c.changed.Wait()
	}
	c.busy++
	return func() { c.add(-1) }
}
