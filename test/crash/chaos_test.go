package crash

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/store/backup"
	"github.com/certplane/certplane/internal/store/datadir"
	"github.com/certplane/certplane/internal/store/etcd"
	"github.com/certplane/certplane/internal/store/sealed"
)

var (
	killsFlag = flag.Int("kills", 12, "how often TestChaos kills, over all its worlds")
	forFlag   = flag.Duration("for", time.Hour*24, "how long TestChaos kills at most")
	threeFlag = flag.Bool("three-steps", false, "whether servers approve and sign requests only after they are stored")
	seedFlag  = flag.Uint64("seed", 0, "what TestChaos draws from; 0 is a seed of its own")
)

const (
	// lease is how long the second server waits for the first.
	lease = 3 * time.Second
	// maxJump is how far a clock is moved at most, in both directions from past.
	maxJump = time.Hour
	// past is by how much the clock is slow at first, so that certificates of that
	// time are valid after each jump.
	past = 2 * time.Hour
	// burst is how many writes are acknowledged at most between two mishaps.
	burst = 40
	// maxRoom is how much can be written at most before the disk is full.
	maxRoom = 128 << 10
	// approvedName is the subject of requests that a policy approves.
	approvedName = "approved"
	// issuerName is the name of the Issuer and of its Secret.
	issuerName = "crash"
	// settling bounds how long all requests may take to be answered at the end.
	settling = 3 * time.Minute
)

// Servers are killed, their clocks jump and their disk is full, while clients
// request certificates in all possible ways. Afterwards, all acknowledged
// writes exist, each request has one certificate, and no serial number was used
// twice.
func TestChaos(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("run it again with -seed %d", seed)
	for i, servers := range []int{1, 2} {
		name := "standalone"
		if servers > 1 {
			name = "two servers on one etcd"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, servers, lease, rand.New(rand.NewPCG(seed, uint64(i))))
			w.run((*killsFlag + 1 - i) / 2)
		})
	}
}

// host runs a process, again and again.
type host struct {
	role role
	*process
	// server is the number of a server; -1 is an etcd.
	server int
}

// world is servers, their store and their clients.
type world struct {
	*testing.T
	random *rand.Rand
	hosts  []*host
	// store is the host of the etcd.
	store   *host
	history *history
	load    *load
	revoker *revoker

	kills, fulls, jumps int
	// lately are the latest events.
	lately []string
}

func newWorld(t *testing.T, servers int, lease time.Duration, random *rand.Rand) *world {
	t.Helper()
	w := &world{T: t, random: random, load: &load{servers: make([]client.Client, servers)}}
	w.revoker = newRevoker(w)
	endpoint := ""
	if servers > 1 {
		endpoint = "http://" + apitest.FreeAddress(t)
		w.store = &host{role: role{Dir: shortDir(t), Listen: endpoint, Clock: -past}, server: -1}
		w.hosts = append(w.hosts, w.store)
		w.start(w.store)
	}
	for i := range servers {
		h := &host{role: role{Dir: shortDir(t), Etcd: endpoint, Clock: -past, Lease: lease, ThreeSteps: *threeFlag}, server: i}
		if i > 0 {
			sharePKI(t, w.hosts[1].role.Dir, h.role.Dir)
		}
		w.hosts = append(w.hosts, h)
		w.start(h)
	}
	if w.store == nil {
		w.store = w.hosts[0]
		local, err := etcd.Local(datadir.Dir(w.store.role.Dir).Etcd())
		if err != nil {
			t.Fatal(err)
		}
		endpoint = local.Servers[0]
	}
	keys, err := sealed.Load(t.Context(), datadir.Dir(w.hosts[len(w.hosts)-1].role.Dir).EncryptionKeys())
	if err != nil {
		t.Fatal(err)
	}
	if w.history, err = newHistory(t.Context(), endpoint, keys); err != nil {
		t.Fatal(err)
	}
	w.load.history = w.history
	return w
}

// shortDir returns a path that is short enough for a socket in it.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "crash")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// sharePKI brings the keys of one server to another, as an operator does.
func sharePKI(t *testing.T, from, to string) {
	t.Helper()
	file, protection := filepath.Join(t.TempDir(), "keys"), backup.Protection{Passphrase: "correct horse"}
	if _, err := backup.ExportKeys(file, datadir.Dir(from), protection, time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := backup.ImportKeys(file, datadir.Dir(to), protection); err != nil {
		t.Fatal(err)
	}
}

// start runs a host again, and gives clients its address.
func (w *world) start(h *host) {
	w.Helper()
	revoked := w.revoker.revoked()
	h.process = startReady(w.T, h.role)
	if h.server < 0 {
		return
	}
	cfg := adminConfig(w.T, h.role.Dir)
	kinds, err := kinds()
	if err != nil {
		w.Fatal(err)
	}
	api, err := client.New(cfg, client.Options{Scheme: kinds, Mapper: mapper()})
	if err != nil {
		w.Fatal(err)
	}
	w.load.set(h.server, api)
	w.revoker.check(h.server, api, cfg, revoked)
}

// mapper saves new clients the discovery requests, which servers answer when
// they have time.
func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"), meta.RESTScopeRoot)
	m.Add(certificatesv1beta1.SchemeGroupVersion.WithKind("PodCertificateRequest"), meta.RESTScopeNamespace)
	for _, kind := range []string{"CertificatePolicy", "Revocation"} {
		m.Add(v1alpha1.GroupVersion.WithKind(kind), meta.RESTScopeRoot)
	}
	for _, kind := range []string{"CertificateRequest", "Certificate", "Issuer"} {
		m.Add(cmv1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	for _, kind := range []string{"Secret", "ConfigMap"} {
		m.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	return m
}

// run kills hosts this many times, or for as long as it may.
func (w *world) run(kills int) {
	w.Cleanup(func() {
		if w.Failed() {
			w.Logf("lately: %s", strings.Join(w.lately, "; "))
		}
	})
	w.underLoad(func() {
		for end := time.Now().Add(*forFlag); w.kills < kills && time.Now().Before(end); {
			before := w.kills
			w.mishap()
			if w.kills/50 > before/50 {
				w.Logf("%d kills, %d writes, %d certificates", w.kills, w.load.count(), w.history.count())
			}
		}
	})
}

// underLoad has clients write while happen runs, and then checks what is left.
func (w *world) underLoad(happen func()) {
	pod := w.populate()
	following, stopFollowing := context.WithCancel(w.Context())
	defer stopFollowing()
	go w.history.follow(following)
	writing, stopWriting := context.WithCancel(w.Context())
	defer stopWriting()
	var clients sync.WaitGroup
	for _, kind := range append(requestKinds(w.T, pod), w.revoker.kind()) {
		for writer := range writers {
			clients.Go(func() { w.load.write(writing, kind, writer) })
		}
	}
	happen()
	stopWriting()
	clients.Wait()
	w.settle()
	w.verify()
}

// populate creates what requests need, and returns the spec of those for pods.
func (w *world) populate() certificatesv1beta1.PodCertificateRequestSpec {
	w.Helper()
	dir := w.hosts[len(w.hosts)-1].role.Dir
	declareSigner(w.T, dir)
	key := apitest.NewKey(w.T)
	root, err := pki.NewRoot(pki.UnrecordedSigning, issuerName, key, pki.DefaultRootLifetime, time.Now().Add(-past-maxJump))
	if err != nil {
		w.Fatal(err)
	}
	keyPEM, err := pki.EncodePrivateKey(key)
	if err != nil {
		w.Fatal(err)
	}
	named := metav1.ObjectMeta{Name: issuerName, Namespace: corev1.NamespaceDefault}
	for _, o := range []client.Object{
		&corev1.Secret{ObjectMeta: named, Type: corev1.SecretTypeTLS, Data: map[string][]byte{
			corev1.TLSCertKey: pki.EncodeCertificates(root.Certificate()), corev1.TLSPrivateKeyKey: keyPEM,
		}},
		&v1alpha1.CertificatePolicy{ObjectMeta: metav1.ObjectMeta{Name: issuerName}, Spec: v1alpha1.CertificatePolicySpec{
			Effect: v1alpha1.PolicyAllow, Approval: &v1alpha1.PolicyApproval{IssueOnCreate: ptr.To(true)},
			Match: v1alpha1.PolicyMatch{
				Kinds: []v1alpha1.RequestKind{v1alpha1.CertificateSigningRequests}, Signers: []string{certificatesv1.KubeAPIServerClientSignerName},
				Conditions: []v1alpha1.MatchCondition{{Name: "name", Expression: "request.subject.commonName == '" + approvedName + "'"}},
			},
			Certificate: &v1alpha1.CertificateConditions{
				Subject: &v1alpha1.SubjectConditions{CommonName: &v1alpha1.CommonName{Text: v1alpha1.Text{Patterns: []string{approvedName}}}},
				Usages:  &v1alpha1.UsageConditions{Allowed: []string{"digital signature", "key encipherment", "client auth"}},
			},
		}},
		&cmv1.Issuer{ObjectMeta: named, Spec: cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{CA: &cmv1.CAIssuer{SecretName: issuerName}}}},
	} {
		if err := w.load.any().Create(w.Context(), o); err != nil {
			w.Fatal(err)
		}
	}
	return podSpec(w.T, adminClient(w.T, dir))
}

// mishap lets clients write for a while, and then causes a failure.
func (w *world) mishap() {
	w.Helper()
	for _, h := range w.hosts {
		if !h.alive() {
			w.Fatalf("a process ended by itself: %v\n%s", h.err, h.log.text())
		}
	}
	w.await("writes", w.load.count, 1+w.random.IntN(burst))
	victims := w.victims()
	if w.random.IntN(4) == 0 {
		jumper := victims[0]
		w.jump(jumper)
		jumper.tell("clock", int64(jumper.role.Clock))
		w.await("writes", w.load.count, w.random.IntN(burst))
	}
	if runtime.GOOS == "linux" && w.random.IntN(8) == 0 {
		w.fillDisk()
		return
	}
	for _, victim := range victims {
		w.kill(victim)
	}
	if len(victims) == 1 && victims[0].server >= 0 && len(w.load.servers) > 1 && w.random.IntN(5) == 0 {
		// The other server has to sign alone.
		w.await("certificates", w.history.count, 1)
	}
	for _, victim := range victims {
		if w.random.IntN(4) == 0 {
			w.jump(victim)
		}
		w.start(victim)
	}
}

// jump gives a host another time, from its next start on.
func (w *world) jump(h *host) {
	w.jumps++
	h.role.Clock = time.Duration(w.random.Int64N(int64(2*maxJump))) - maxJump
	w.happened("the clock of %d is off by %v", h.server, h.role.Clock)
}

// happened records an event; the latest are kept.
func (w *world) happened(format string, args ...any) {
	const kept = 20
	w.lately = append(w.lately, fmt.Sprintf(format, args...))
	w.lately = w.lately[max(0, len(w.lately)-kept):]
}

// victims returns mostly one server, sometimes all of several, or the etcd.
func (w *world) victims() []*host {
	servers := slices.DeleteFunc(slices.Clone(w.hosts), func(h *host) bool { return h.server < 0 })
	switch {
	case len(servers) == 1:
		return servers
	case w.random.IntN(10) == 0:
		return []*host{w.store}
	case w.random.IntN(10) == 0:
		return servers
	}
	return []*host{servers[w.random.IntN(len(servers))]}
}

func (w *world) kill(h *host) {
	if h.server >= 0 {
		w.load.set(h.server, nil)
	}
	w.happened("kill %d", h.server)
	h.kill()
	w.kills++
}

// fillDisk makes the store end because it cannot write any more.
func (w *world) fillDisk() {
	w.Helper()
	w.fulls++
	room := w.random.Int64N(maxRoom)
	w.happened("a disk with room for %d", room)
	w.store.tell("full", room)
	select {
	case <-w.store.ended:
		if w.store.server >= 0 {
			w.load.set(w.store.server, nil)
		}
	case <-time.After(timeout):
		w.Fatalf("the store goes on with a full disk\n%s", w.store.log.text())
	}
	w.start(w.store)
}

// await waits until count has grown by more.
func (w *world) await(what string, count func() int, more int) {
	w.Helper()
	until := count() + more
	apitest.Eventually(w.T, fmt.Sprintf("there are %d more %s", more, what), func() bool { return count() >= until })
}

// settle waits until all that was stored is in the history, and answered.
func (w *world) settle() {
	w.Helper()
	last := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceDefault, Name: "last"}}
	if err := w.load.any().Create(w.Context(), last); err != nil {
		w.Fatal(err)
	}
	err := wait.PollUntilContextTimeout(w.Context(), pause, settling, true, func(context.Context) (bool, error) {
		return w.history.has(mapKeys+"default/last") && len(w.history.unanswered()) == 0, nil
	})
	if err != nil {
		w.Errorf("waiting until all requests are answered: %v", err)
	}
}

// verify compares the answers to clients with what was stored and with what
// servers return.
func (w *world) verify() {
	w.Helper()
	lost, two, failed := w.history.verdicts(w.load.acks)
	unanswered := w.history.unanswered()
	for _, group := range []struct {
		what  string
		which []string
	}{
		{"writes were acknowledged and are lost", lost},
		{"requests have two certificates", two},
		{"serial numbers were used twice", w.history.twins},
		{"requests failed", failed},
		{"requests have no certificate", unanswered},
	} {
		if n := len(group.which); n > 0 {
			w.Errorf("%d %s: %s", n, group.what, strings.Join(group.which[:min(n, 10)], "\n"))
		}
	}
	if atOnce := w.history.atOnce; atOnce > 0 == *threeFlag {
		w.Errorf("%d certificates were stored with their requests", atOnce)
	}
	for _, h := range w.hosts {
		if h.server >= 0 {
			w.compare(h)
			w.revoker.compare(h)
		}
	}
	for _, err := range w.history.problems {
		w.Error(err)
	}
	w.Logf(`
kills (SIGKILL)                 %8d
disks full                      %8d
jumps of clocks                 %8d
writes acknowledged             %8d
certificates                    %8d
stored with their requests      %8d
acknowledged writes lost        %8d
requests with two certificates  %8d
serial numbers used twice       %8d
requests failed                 %8d
requests without certificate    %8d
revocations, certificates asked %8d, %d
revocation lists signed         %8d
longest time without a write    %8v
longest time without a signing  %8v
longest wait for a certificate  %8v, %s`,
		w.kills, w.fulls, w.jumps, len(w.load.acks), w.history.count(), w.history.atOnce, len(lost), len(two), len(w.history.twins),
		len(failed), len(unanswered), len(w.revoker.revoked()), w.revoker.probes.Load(), w.history.lists, w.load.longestGap.Round(time.Millisecond), w.history.pause().Round(time.Millisecond), w.history.longestWait.Round(time.Millisecond), w.history.longestWaiter)
}

// compare checks whether a server returns requests as they are stored, and
// whether the Secrets of Certificates contain their certificates.
func (w *world) compare(h *host) {
	w.Helper()
	core := adminClient(w.T, h.role.Dir)
	ctx, all := w.Context(), metav1.ListOptions{}
	shown := map[string]bool{}
	csrs, err := core.CertificatesV1().CertificateSigningRequests().List(ctx, all)
	if err != nil {
		w.Fatal(err)
	}
	for _, o := range csrs.Items {
		shown[csrKeys+o.Name] = true
	}
	for _, o := range listPods(w.T, core) {
		shown[podRequestKeys+o.Namespace+"/"+o.Name] = true
	}
	if missing := w.history.missing(shown, csrKeys, podRequestKeys); len(missing) > 0 {
		w.Errorf("server %d does not show %d requests: %v", h.server, len(missing), missing[:min(10, len(missing))])
	}
	secrets, err := core.CoreV1().Secrets(corev1.NamespaceDefault).List(ctx, all)
	if err != nil {
		w.Fatal(err)
	}
	want := w.history.liveCertificates()
	for _, secret := range secrets.Items {
		digests := want[secret.Name]
		pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
		if digests != nil && (err != nil || digests[sha256.Sum256(pair.Certificate[0])] == "") {
			w.Errorf("Secret %s does not hold its Certificate: %v", secret.Name, err)
		}
		delete(want, secret.Name)
	}
	if len(want) > 0 {
		w.Errorf("server %d does not show Secrets: %v", h.server, slices.Collect(maps.Keys(want)))
	}
}
