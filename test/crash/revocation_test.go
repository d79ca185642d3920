package crash

import (
	"bytes"
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/inventory"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/revocation"
	"github.com/certplane/certplane/internal/store/datadir"
	"github.com/certplane/certplane/internal/store/sealed"
)

// revoker is clients that get certificates and revoke every other one. It knows which of them
// servers must refuse. It is safe for concurrent use.
type revoker struct {
	*world
	// probes counts requests with certificates.
	probes atomic.Int64

	mu           sync.Mutex
	certificates []*revocable
	configs      map[client.Client]*rest.Config // of all servers that ever ran
	// served has the digest of each list that a server has served, by CA and number.
	served map[string][sha256.Size]byte
}

// revocable is a certificate that servers accept until it is revoked.
type revocable struct {
	name string
	pair tls.Certificate
	// asked is set before a client revokes it, and answered once it is revoked.
	asked, answered atomic.Bool
}

func newRevoker(w *world) *revoker {
	return &revoker{world: w, configs: map[client.Client]*rest.Config{}, served: map[string][sha256.Size]byte{}}
}

// kind is requests for the certificates. Each has a separate key.
func (r *revoker) kind() requestKind {
	var keys sync.Map
	return requestKind{name: "revoked", keys: csrKeys, make: func(name string) client.Object {
		key, _ := keys.LoadOrStore(name, apitest.NewKey(r.T))
		return apitest.NewCSR(r.T, name, certificatesv1.KubeAPIServerClientSignerName, pki.Subject{CommonName: approvedName}, key.(crypto.Signer))
	}, then: func(ctx context.Context, o client.Object) {
		key, _ := keys.LoadAndDelete(o.GetName())
		c := &revocable{name: o.GetName(), pair: tls.Certificate{PrivateKey: key}}
		if !r.await(ctx, o.(*certificatesv1.CertificateSigningRequest), c) {
			return
		}
		r.mu.Lock()
		r.certificates = append(r.certificates, c)
		number := len(r.certificates)
		r.mu.Unlock()
		switch number % 4 {
		case 0:
			r.revoke(ctx, c, v1alpha1.RevocationSpec{Certificates: []v1alpha1.RevokedCertificate{{PEM: string(pki.EncodeCertificates(c.pair.Leaf))}}})
		case 2:
			r.revoke(ctx, c, v1alpha1.RevocationSpec{AtMost: 1, Selection: &v1alpha1.RevocationSelection{KeyFingerprints: []string{pki.KeyFingerprint(c.pair.Leaf.PublicKey)}}})
		}
	}}
}

// await waits for the certificate of a request; false if ctx ends before.
func (r *revoker) await(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, c *revocable) bool {
	for ; len(csr.Status.Certificate) == 0; short(ctx) {
		if ctx.Err() != nil {
			return false
		}
		csr = r.load.read(ctx, csr, csrKeys+csr.Name).(*certificatesv1.CertificateSigningRequest)
	}
	chain, err := pki.ParseCertificates(csr.Status.Certificate)
	if err != nil {
		r.history.problem(err)
		return false
	}
	for _, cert := range chain {
		c.pair.Certificate = append(c.pair.Certificate, cert.Raw)
	}
	c.pair.Leaf = chain[0]
	return true
}

// short waits for a moment.
func short(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(20 * time.Millisecond):
	}
}

// revoke revokes a certificate. A client without an answer tries again, and learns that the
// Revocation exists or that the certificate is revoked.
func (r *revoker) revoke(ctx context.Context, c *revocable, spec v1alpha1.RevocationSpec) {
	c.asked.Store(true)
	spec.Reason = "Superseded"
	for ; ctx.Err() == nil; short(ctx) {
		api := r.load.any()
		if api == nil {
			continue
		}
		object := &v1alpha1.Revocation{ObjectMeta: metav1.ObjectMeta{Name: c.name}, Spec: spec}
		err := call(ctx, func(ctx context.Context) error { return api.Create(ctx, object) })
		if err == nil {
			r.load.acknowledged(revocationKeys+c.name, object.ResourceVersion)
			if object.Status.Recorded+object.Status.AlreadyRevoked != 1 {
				r.history.problem(fmt.Errorf("the Revocation %s is answered with %+v", c.name, object.Status))
			}
		}
		switch {
		case err == nil, apierrors.IsAlreadyExists(err):
			c.answered.Store(true)
			if err == nil { // another server may take a second
				r.probe(r.configOf(api), c, "the answer")
			}
			return
		case apierrors.IsInvalid(err):
			// A selection finds nothing where the clock is behind, or when it is revoked
			// already: whether it is, nobody has said.
			return
		}
	}
}

func (r *revoker) configOf(api client.Client) *rest.Config {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.configs[api]
}

// revoked returns the certificates whose revocation was answered.
func (r *revoker) revoked() (revoked []*revocable) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.certificates {
		if c.answered.Load() {
			revoked = append(revoked, c)
		}
	}
	return revoked
}

// probe makes a request with a certificate, and notes if it is accepted although it is
// revoked, or refused as revoked although nobody has revoked it.
func (r *revoker) probe(cfg *rest.Config, c *revocable, after string) {
	answered := c.answered.Load()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cfg.CAData)
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{c.pair}}}
	answer, err := (&http.Client{Transport: transport, Timeout: patience}).Get(cfg.Host + "/version")
	if err != nil {
		return // killed
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return
	}
	r.probes.Add(1)
	switch refused := bytes.Contains(body, []byte("was revoked on")); {
	case answered && answer.StatusCode != http.StatusUnauthorized:
		r.history.problem(fmt.Errorf("the certificate of %s is accepted after %s, although it is revoked: %s %s", c.name, after, answer.Status, body))
	case refused && !c.asked.Load():
		r.history.problem(fmt.Errorf("the certificate of %s is refused after %s, although nobody has revoked it: %s", c.name, after, body))
	}
}

// mostProbes is how many certificates are tried after each start, the latest ones.
const mostProbes = 20

// check tries certificates with a server that has just started, and reads its lists. revoked
// are those whose revocation was answered before it started.
func (r *revoker) check(server int, api client.Client, cfg *rest.Config, revoked []*revocable) {
	r.Helper()
	r.mu.Lock()
	r.configs[api] = cfg
	accepted := slices.DeleteFunc(slices.Clone(r.certificates), func(c *revocable) bool { return c.asked.Load() })
	r.mu.Unlock()
	after := fmt.Sprintf("start of server %d", server)
	for _, some := range [][]*revocable{revoked, accepted} {
		for _, c := range some[max(0, len(some)-mostProbes):] {
			r.probe(cfg, c, after)
		}
	}
	if _, err := r.lists(cfg); err != nil {
		r.history.problem(fmt.Errorf("reading the lists after the %s: %w", after, err))
	}
}

// lists returns the serial numbers on all lists that a server serves, and notes lists of one
// number with different bytes.
func (r *revoker) lists(cfg *rest.Config) (serials map[string]bool, err error) {
	core, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	get := func(path ...string) ([]byte, error) {
		path = append([]string{"/apis", inventoryv1alpha1.GroupVersion.String(), "revocationlists"}, path...)
		return core.CoreV1().RESTClient().Get().AbsPath(path...).SetHeader("Accept", "application/json").DoRaw(r.Context())
	}
	data, err := get()
	if err != nil {
		return nil, err
	}
	all := &inventoryv1alpha1.RevocationListList{}
	if err := json.Unmarshal(data, all); err != nil {
		return nil, err
	}
	serials = map[string]bool{}
	for _, item := range all.Items {
		der, err := get(item.Name, "content")
		if apierrors.IsServiceUnavailable(err) || apierrors.IsNotFound(err) {
			continue // it has no list yet
		}
		if err != nil {
			return nil, err
		}
		list, err := x509.ParseRevocationList(der)
		if err != nil {
			return nil, err
		}
		for _, e := range list.RevokedCertificateEntries {
			serials[e.SerialNumber.String()] = true
		}
		r.mu.Lock()
		digest, id := sha256.Sum256(der), item.Name+" "+list.Number.String()
		if former, known := r.served[id]; known && former != digest {
			r.history.problem(fmt.Errorf("the list %s is served with different bytes", id))
		}
		r.served[id] = digest
		r.mu.Unlock()
	}
	return serials, nil
}

// compare tries all certificates with a server, and waits until its lists have all that are
// revoked.
func (r *revoker) compare(h *host) {
	r.Helper()
	cfg := adminConfig(r.T, h.role.Dir)
	for _, c := range r.certificates {
		r.probe(cfg, c, "the end")
	}
	missing := ""
	err := wait.PollUntilContextTimeout(r.Context(), pause, settling, true, func(context.Context) (bool, error) {
		serials, err := r.lists(cfg)
		missing = ""
		for _, c := range r.revoked() {
			if !serials[c.pair.Leaf.SerialNumber.String()] {
				missing += " " + c.name
			}
		}
		return missing == "", err
	})
	if err != nil {
		r.Errorf("the lists of server %d lack%s: %v", h.server, missing, err)
	}
}

// noteRevoked records the state of a key of revocations: entries never change, and the number
// of a list grows with each one that is signed. Its caller holds mu.
func (h *history) noteRevoked(key string, kv *mvccpb.KeyValue) error {
	if strings.HasPrefix(key, entryKeys) {
		switch {
		case kv.Version == 0:
			return errors.New("entries are deleted")
		case kv.Version > 1:
			return errors.New("entries are written again")
		}
		return nil
	}
	list, last := &revocation.StoredList{}, h.last[key]
	if err := json.Unmarshal(kv.Value, list); err != nil {
		return err
	}
	h.last[key] = list
	switch {
	case last == nil || list.Number > last.Number:
		h.lists++
	case list.Number < last.Number:
		return fmt.Errorf("the list %d follows %d", list.Number, last.Number)
	case !bytes.Equal(list.SHA256, last.SHA256) || !bytes.Equal(list.Signature, last.Signature):
		return fmt.Errorf("two lists have the number %d", list.Number)
	}
	return nil
}

// selected is how many certificates a selection has in TestKillAtWritesOfRevocations: more than
// one value of the store holds.
const selected = 4001

// A server is killed at the writes of a selection and of the list that follows. Either all of
// the certificates are revoked or none, the client's next try revokes them, and the list has
// each once.
func TestKillAtWritesOfRevocations(t *testing.T) {
	t.Parallel()
	endpoint := "http://" + apitest.FreeAddress(t)
	store := startReady(t, role{Dir: shortDir(t), Listen: endpoint})
	t.Cleanup(store.kill)
	var also atomic.Value // the keys that count beside those of entries
	also.Store(entryKeys)
	s := &strikes{t: t, counts: func(key string) bool {
		return strings.HasPrefix(key, entryKeys) || strings.HasPrefix(key, also.Load().(string))
	}}
	proxy := newStoreProxy(t, endpoint, func(key string) bool { return s.before(0, key) }, func(key string) bool { return s.after(0, key) })
	w := &world{T: t, load: &load{servers: make([]client.Client, 1)}}
	w.revoker = newRevoker(w)
	server := &host{role: role{Dir: shortDir(t), Etcd: proxy.address, Lease: lease}}
	w.start(server)
	s.kill = func(int) { server.kill() }
	keys, err := sealed.Load(t.Context(), datadir.Dir(server.role.Dir).EncryptionKeys())
	if err == nil {
		w.history, err = newHistory(t.Context(), endpoint, keys)
	}
	if err != nil {
		t.Fatal(err)
	}
	go w.history.follow(t.Context())
	rounds := []struct {
		writeStrike
		key string // of the write
		// revoked reports whether the certificates are revoked then.
		revoked bool
	}{
		{writeStrike{1, unanswered}, entryKeys, false}, // a part
		{writeStrike{2, before}, entryKeys, false},     // the first part, with which all have effect
		{writeStrike{2, unanswered}, entryKeys, true},
		{writeStrike{3, unanswered}, revocationKeys, true},
		{writeStrike{3, before}, listKeys, true},
		{writeStrike{3, unanswered}, listKeys, true},
	}
	for n, round := range rounds {
		requester := fmt.Sprintf("requester-%d", n)
		w.recordMany(server, requester)
		if also.Store(round.key); round.key == revocationKeys {
			also.Store(revocationKeys + requester) // others get conditions at any time
		}
		s.arm(round.writeStrike)
		first := w.revokeMany(requester)
		key := ""
		apitest.Eventually(t, "the server is killed", func() (killed bool) { _, key, killed = s.killed(); return killed })
		what := fmt.Sprintf("%q at write %d, %s", round.when, round.number, key)
		if !strings.HasPrefix(key, round.key) {
			t.Errorf("%s, want one of %s", what, round.key)
		}
		s.arm(writeStrike{})
		w.start(server)
		if revoked := w.countRevoked(requester); revoked != selected && round.revoked || revoked != 0 && !round.revoked || first == nil && !round.revoked {
			t.Errorf("%s: %d of %d certificates are revoked; the answer was %v", what, revoked, selected, first)
		}
		err := w.revokeMany(requester)
		if revoked := w.countRevoked(requester); revoked != selected {
			t.Errorf("%s: %d of %d certificates are revoked; the second answer is %v", what, revoked, selected, err)
		}
		if err != nil && !apierrors.IsAlreadyExists(err) && !strings.Contains(err.Error(), "selects no certificate") {
			t.Errorf("%s: the second answer is %v", what, err)
		}
		apitest.Eventually(t, "the lists have all certificates", func() bool {
			serials, err := w.revoker.lists(w.revoker.configOf(w.load.any()))
			return err == nil && len(serials) == selected*(n+1)
		})
	}
	for _, err := range w.history.problems {
		t.Error(err)
	}
}

// recordMany records certificates of the client CA that a user has requested.
func (w *world) recordMany(server *host, requester string) {
	w.Helper()
	pem, err := os.ReadFile(filepath.Join(server.role.Dir, "pki", "client-ca.crt"))
	if err != nil {
		w.Fatal(err)
	}
	chain, err := pki.ParseCertificates(pem)
	if err != nil {
		w.Fatal(err)
	}
	var ops []clientv3.Op
	for n := range selected {
		digest := sha256.Sum256(fmt.Append(nil, requester, n))
		record := &inventoryv1alpha1.IssuedCertificate{
			ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Now()}, SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Request: inventoryv1alpha1.RequestFacts{APIGroup: certificatesv1.GroupName, Kind: "CertificateSigningRequest", Name: requester, UID: requester, Requester: requester},
			Certificate: inventoryv1alpha1.CertificateFacts{
				SerialNumber: fmt.Sprintf("%x", digest[:16]), AuthorityKeyID: fmt.Sprintf("%x", chain[0].SubjectKeyId), Fingerprint: fmt.Sprintf("%x", digest),
				NotBefore: metav1.Now(), NotAfter: metav1.NewTime(time.Now().Add(24 * time.Hour)),
			},
		}
		inventory.Complete(record)
		op, err := (&inventory.Inventory{}).Write(record)
		if err != nil {
			w.Fatal(err)
		}
		ops = append(ops, clientv3.OpPut("/registry/inventory.certplane.dev/issuedcertificates/"+string(op.KeyBytes()), string(op.ValueBytes())))
	}
	for batch := range slices.Chunk(ops, 100) {
		if _, err := w.history.client.Txn(w.Context()).Then(batch...).Commit(); err != nil {
			w.Fatal(err)
		}
	}
	apitest.Eventually(w.T, "the records are known", func() bool { return len(w.recorded(requester)) == selected })
}

// revokeMany revokes the certificates of a requester.
func (w *world) revokeMany(requester string) error {
	object := &v1alpha1.Revocation{ObjectMeta: metav1.ObjectMeta{Name: requester}, Spec: v1alpha1.RevocationSpec{
		Reason: "Superseded", AtMost: selected, Selection: &v1alpha1.RevocationSelection{Requesters: []string{requester}},
	}}
	err := call(w.Context(), func(ctx context.Context) error { return w.load.any().Create(ctx, object) })
	if err == nil && object.Status.Recorded != selected {
		err = fmt.Errorf("%d certificates are recorded", object.Status.Recorded)
	}
	return err
}

// countRevoked returns how many certificates of a requester the server knows as revoked.
func (w *world) countRevoked(requester string) int {
	w.Helper()
	records := w.recorded(requester)
	if len(records) != selected {
		w.Fatalf("the inventory has %d records of %s", len(records), requester)
	}
	return len(slices.DeleteFunc(records, func(r inventoryv1alpha1.IssuedCertificate) bool { return r.Revocation == nil }))
}

// recorded returns the records of certificates that a user has requested.
func (w *world) recorded(requester string) []inventoryv1alpha1.IssuedCertificate {
	w.Helper()
	records := &inventoryv1alpha1.IssuedCertificateList{}
	core, err := kubernetes.NewForConfig(w.revoker.configOf(w.load.any()))
	if err != nil {
		w.Fatal(err)
	}
	data, err := core.CoreV1().RESTClient().Get().AbsPath("/apis", inventoryv1alpha1.GroupVersion.String(), "issuedcertificates").SetHeader("Accept", "application/json").
		Param("fieldSelector", "request.requester="+requester).DoRaw(w.Context())
	if err == nil {
		err = json.Unmarshal(data, records)
	}
	if err != nil {
		w.Fatal(err)
	}
	return records.Items
}
