package revoked

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	clientcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/worker"
	"github.com/certplane/certplane/internal/revocation"
	"github.com/certplane/certplane/internal/rights"
)

// Keys of the ConfigMap begin with the ID of a CA: the list in DER, and what else is known
// about it.
const (
	listKey  = ".crl"
	factsKey = ".json"
)

var (
	errConflict = errors.New("another process has signed a revocation list of the CA meanwhile")
	errTooLarge = fmt.Errorf("the ConfigMap %s would have more than %d bytes", rights.RevocationLists, worker.MostConfigMap)
)

// Lists has the lists that the CAs of a cluster have signed last, in one ConfigMap, and the
// revoked certificates for the next ones. With a list that another process has signed, it
// takes over the certificates whose Revocation is not there any more: nothing takes a
// certificate off a list before its end. It is safe for concurrent use.
type Lists struct {
	*revocation.Lists
	follower *Follower
	api      clientcorev1.ConfigMapInterface
	events   events.EventRecorder
	read     signal
	writes   sync.Mutex // held while the ConfigMap is written
}

// facts is what is stored beside a list. What it covers is known to the process only that has
// signed it.
type facts struct {
	// Revision orders the lists stored for the CA.
	Revision int64 `json:"revision"`
	revocation.StoredList
}

// NewLists returns the lists in the ConfigMaps of a namespace. recorder reports a ConfigMap
// that is too small; it can be nil.
func NewLists(follower *Follower, api clientcorev1.ConfigMapInterface, recorder events.EventRecorder) *Lists {
	return &Lists{
		Lists: revocation.NewLists(follower.index), follower: follower, api: api, events: recorder, read: signal{done: make(chan struct{})},
	}
}

// AwaitRead returns when all Revocations and all lists were read once.
func (l *Lists) AwaitRead(ctx context.Context) error { return l.read.wait(ctx) }

// Revoked returns what is revoked.
func (l *Lists) Revoked() *revocation.Index { return l.follower.index }

// RevokedTo returns the revision of the last act that the process has learned of.
func (l *Lists) RevokedTo() int64 {
	revision, _ := l.follower.index.Changed()
	return revision
}

// Start follows the lists until ctx ends.
func (l *Lists) Start(ctx context.Context) error {
	if err := l.follower.AwaitRead(ctx); err != nil {
		return nil // ctx has ended
	}
	only := fields.OneTermEqualSelector("metadata.name", rights.RevocationLists).String()
	follow(ctx, only, l.api.List, l.api.Watch, &corev1.ConfigMap{}, l.store())
	return nil
}

func (l *Lists) store() folding { return folding{fold: l.fold, gone: l.forget, read: l.read.set} }

// forget drops deleted lists, so that the CAs sign new ones.
func (l *Lists) forget() {
	for _, list := range l.All() {
		l.Remove(list.ID)
	}
}

func (l *Lists) fold(object any) {
	stored, ok := object.(*corev1.ConfigMap)
	if !ok {
		return
	}
	for key, text := range stored.Data {
		id, ok := strings.CutSuffix(key, factsKey)
		if !ok {
			continue
		}
		if err := l.take(id, revisionOf(stored, id), []byte(text), stored.BinaryData[id+listKey]); err != nil {
			klog.ErrorS(err, "Cannot read a stored revocation list: another one is signed", "configMap", klog.KObj(stored), "list", id)
			l.Set(id, revisionOf(stored, id), nil, nil)
		}
	}
}

// take takes over a list that another process has signed.
func (l *Lists) take(id string, revision int64, data, der []byte) error {
	if known := l.Get(id); known != nil && known.Revision >= revision {
		return nil
	}
	var of facts
	if err := json.Unmarshal(data, &of); err != nil {
		return fmt.Errorf("decoding: %w", err)
	}
	chain, err := of.Certificates()
	if err != nil {
		return err
	}
	list, err := x509.ParseRevocationList(der)
	if err != nil {
		return fmt.Errorf("parsing: %w", err)
	}
	if err := list.CheckSignatureFrom(chain[0]); err != nil {
		return fmt.Errorf("verifying its signature: %w", err)
	}
	l.keep(id, chain[0], list)
	of.Covers = l.covers(chain[0], list, &of.StoredList)
	if data, err = json.Marshal(of); err != nil {
		return fmt.Errorf("encoding: %w", err)
	}
	l.Set(id, revision, data, der)
	return nil
}

// keep adds the certificates of a list that no Revocation names any more. Their ends are not
// known, so they stay until the end of the CA.
func (l *Lists) keep(id string, ca *x509.Certificate, list *x509.RevocationList) {
	ids := revocation.AuthoritiesOf(ca)
	var kept []revocation.Entry
	for _, listed := range list.RevokedCertificateEntries {
		entry := revocation.Entry{
			Serial: listed.SerialNumber.Bytes(), NotAfter: ca.NotAfter, Time: listed.RevocationTime.Add(revocation.Backdate), Reason: pki.Reason(listed.ReasonCode),
		}
		known := false
		for _, entry.Authority = range ids {
			_, revoked := l.follower.index.Entry(&entry)
			known = known || revoked
		}
		if !known {
			kept = append(kept, entry)
		}
	}
	if len(kept) > 0 {
		l.follower.add(revocation.Act{UID: types.UID("list/" + id + "/" + list.Number.String())}, kept)
	}
}

// covers returns the revision of the last act if a list has all that is revoked, and otherwise
// that of none.
func (l *Lists) covers(ca *x509.Certificate, list *x509.RevocationList, of *revocation.StoredList) int64 {
	reasons := make(map[string]int, len(list.RevokedCertificateEntries))
	for _, listed := range list.RevokedCertificateEntries {
		reasons[string(listed.SerialNumber.Bytes())] = listed.ReasonCode
	}
	next := *of
	next.Covers = l.RevokedTo()
	for _, entry := range next.Revoked(ca, l.follower.index) {
		if reason, ok := reasons[string(entry.Serial)]; !ok || reason != int(entry.Reason) {
			return 0
		}
	}
	return next.Covers
}

// revisionOf returns the revision of a CA's stored list; 0 without a readable one.
func revisionOf(stored *corev1.ConfigMap, id string) int64 {
	var of struct {
		Revision int64 `json:"revision"`
	}
	_ = json.Unmarshal([]byte(stored.Data[id+factsKey]), &of)
	return of.Revision
}

// Put stores the list that a CA has signed. former is the revision of the stored list that it
// replaces; 0 if there is none. If another list is stored, that one is taken over: two
// processes never sign lists of the same number that both count.
func (l *Lists) Put(ctx context.Context, id string, list *revocation.StoredList, der []byte, former int64) error {
	if known := l.Get(id); der == nil && known != nil {
		der = known.DER
	}
	revision := max(former+1, list.Number)
	data, err := json.Marshal(facts{revision, *list})
	if err != nil {
		return fmt.Errorf("encoding a revocation list: %w", err)
	}
	var found *corev1.ConfigMap
	err = l.change(ctx, func(stored *corev1.ConfigMap) error {
		if found = stored.DeepCopy(); revisionOf(stored, id) != former {
			return errConflict
		}
		stored.Data[id+factsKey], stored.BinaryData[id+listKey] = string(data), der
		if worker.SizeOfConfigMap(stored) > worker.MostConfigMap {
			return errTooLarge
		}
		return nil
	})
	switch {
	case errors.Is(err, errConflict):
		l.Remove(id)
		l.fold(found)
	case errors.Is(err, errTooLarge) && l.events != nil:
		l.events.Eventf(found, nil, corev1.EventTypeWarning, "TooLarge", "Sign", "A revocation list with %d certificates was not stored, and the former one stays: %v", list.Entries, err)
	}
	if err != nil {
		return err
	}
	l.Set(id, revision, data, der)
	return nil
}

// Delete deletes the stored list of a CA that has ended.
func (l *Lists) Delete(ctx context.Context, id string) error {
	err := l.change(ctx, func(stored *corev1.ConfigMap) error {
		delete(stored.Data, id+factsKey)
		delete(stored.BinaryData, id+listKey)
		return nil
	})
	if err == nil {
		l.Remove(id)
	}
	return err
}

// change changes the ConfigMap, which it creates if there is none.
func (l *Lists) change(ctx context.Context, by func(*corev1.ConfigMap) error) error {
	l.writes.Lock()
	defer l.writes.Unlock()
	overtaken := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
	return retry.OnError(retry.DefaultRetry, overtaken, func() error {
		stored, err := l.api.Get(ctx, rights.RevocationLists, metav1.GetOptions{})
		write := func() error { _, err := l.api.Update(ctx, stored, metav1.UpdateOptions{}); return err }
		if apierrors.IsNotFound(err) {
			stored, err = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: rights.RevocationLists}}, nil
			write = func() error { _, err := l.api.Create(ctx, stored, metav1.CreateOptions{}); return err }
		}
		if err != nil {
			return fmt.Errorf("reading the stored revocation lists: %w", err)
		}
		if stored.Data == nil {
			stored.Data = map[string]string{}
		}
		if stored.BinaryData == nil {
			stored.BinaryData = map[string][]byte{}
		}
		if err := by(stored); err != nil {
			return err
		}
		if err := write(); err != nil {
			return fmt.Errorf("storing a revocation list: %w", err)
		}
		return nil
	})
}
