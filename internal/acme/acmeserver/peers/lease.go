package peers

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/acme/acmeserver/nonce"
)

// Cached returns the cache options for a Lease.
func Cached(lease client.ObjectKey) cache.ByObject {
	return cache.ByObject{Namespaces: map[string]cache.Config{lease.Namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", lease.Name)}}}
}

// prefix begins the names of the annotations, which end with the instance.
const prefix = "peers.acme.certplane.dev/"

const (
	renewEvery = 5 * time.Second
	// The sum of callFor and twice renewEvery is less than aliveFor: this process notices
	// that it cannot write its entry before the entries of its peers become old.
	callFor = 4 * time.Second
	// removeAfter is when the entry of a process that is gone is removed.
	removeAfter = time.Minute
	// maxSkew is how far clocks may be apart.
	maxSkew = 30 * time.Second
)

// entry is the data of a process in the Lease.
type entry struct {
	Address string `json:"address"`
	Key     string `json:"key"`
	// Time is when it was written, by the clock of the process.
	Time metav1.Time `json:"time"`
}

// follow watches the Lease.
func (p *Peers) follow(ctx context.Context) error {
	informer, err := p.Cache.GetInformer(ctx, &coordinationv1.Lease{}, cache.BlockUntilSynced(false))
	if err == nil {
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    p.learn,
			UpdateFunc: func(_, lease any) { p.learn(lease) },
		})
	}
	if err != nil {
		return fmt.Errorf("following the Lease %s: %w", p.Lease, err)
	}
	return nil
}

// learn updates the peers from the Lease.
func (p *Peers) learn(object any) {
	lease, ok := object.(*coordinationv1.Lease)
	if !ok || client.ObjectKeyFromObject(lease) != p.Lease {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	first := len(p.known) == 0
	listed := map[nonce.Instance]bool{}
	for name, value := range lease.Annotations {
		instance, found := instanceOf(name)
		var e entry
		if !found || instance == p.Instance || json.Unmarshal([]byte(value), &e) != nil {
			continue
		}
		listed[instance] = true
		p.learnOne(instance, e, first)
	}
	for instance, one := range p.known {
		if !listed[instance] {
			one.http.CloseIdleConnections()
			delete(p.known, instance)
		}
	}
}

// learnOne updates one peer. Whether it is alive does not depend on its clock.
func (p *Peers) learnOne(instance nonce.Instance, e entry, first bool) {
	one := p.known[instance]
	switch {
	case one == nil || one.entry.Address != e.Address || one.entry.Key != e.Key:
		if one != nil {
			one.http.CloseIdleConnections()
		}
		one = &peer{http: p.newClient(e.Key)}
		p.known[instance] = one
		if at, err := netip.ParseAddrPort(e.Address); err == nil {
			one.at = at.Addr().Unmap()
		}
	case one.entry.Time.Equal(&e.Time):
		return
	}
	one.entry, one.changed = e, p.Now()
	if first {
		return // it may have been written long ago
	}
	was := one.skew
	if one.skew = e.Time.Sub(one.changed); one.skew.Abs() > maxSkew && was.Abs() <= maxSkew {
		klog.InfoS("The clock of another process of the ACME server is off", "peer", e.Address, "ahead", one.skew.Round(time.Second).String())
	}
}

// instanceOf returns the process that an annotation is about.
func instanceOf(annotation string) (instance nonce.Instance, ok bool) {
	text, found := strings.CutPrefix(annotation, prefix)
	if !found || len(text) != hex.EncodedLen(len(instance)) {
		return instance, false
	}
	_, err := hex.Decode(instance[:], []byte(text))
	return instance, err == nil
}

// Run keeps the entry of this process until ctx ends, and removes it then: from that
// moment, no peer waits for an answer.
func (p *Peers) Run(ctx context.Context) {
	failed := false
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		err := p.renew(ctx)
		p.noteRenewal(err == nil)
		if err != nil && !failed && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Cannot announce this process to the other processes of the ACME server; clients have to repeat requests", "lease", p.Lease.String())
		}
		failed = err != nil
	}, renewEvery)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callFor)
	defer cancel()
	if err := p.write(ctx, map[string]*string{prefix + p.Instance.String(): nil}); err != nil && !apierrors.IsNotFound(err) {
		klog.FromContext(ctx).Error(err, "Cannot remove the entry of this process; its peers ask it until the entry is old", "lease", p.Lease.String())
	}
}

// renew writes the entry of this process, and removes the entries of processes that are
// gone.
func (p *Peers) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callFor)
	defer cancel()
	text, err := json.Marshal(entry{Address: p.Address, Key: p.own.digest, Time: metav1.NewTime(p.Now().UTC().Truncate(time.Second))})
	if err != nil {
		return fmt.Errorf("encoding the entry of this process: %w", err)
	}
	own := string(text)
	changes := p.gone()
	changes[prefix+p.Instance.String()] = &own
	if err = p.write(ctx, changes); !apierrors.IsNotFound(err) {
		return err
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: p.Lease.Namespace, Name: p.Lease.Name, Annotations: map[string]string{prefix + p.Instance.String(): own}}}
	if err = p.Client.Create(ctx, lease); apierrors.IsAlreadyExists(err) {
		err = p.write(ctx, changes) // another process was faster
	}
	return err
}

// gone returns a change that removes the entries of processes that are gone.
func (p *Peers) gone() map[string]*string {
	p.mu.Lock()
	defer p.mu.Unlock()
	changes := map[string]*string{}
	for instance, one := range p.known {
		if p.age(one) > removeAfter {
			changes[prefix+instance.String()] = nil
		}
	}
	return changes
}

// write changes annotations. It does not touch entries of other processes, so that there
// are no conflicts.
func (p *Peers) write(ctx context.Context, annotations map[string]*string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return fmt.Errorf("encoding the entry of this process: %w", err)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: p.Lease.Namespace, Name: p.Lease.Name}}
	return p.Client.Patch(ctx, lease, client.RawPatch(types.MergePatchType, patch))
}
