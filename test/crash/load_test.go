package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

const (
	// writers is the number of clients for each kind of request.
	writers = 2
	// kept is how many answered requests of a writer stay; older ones are
	// deleted.
	kept = 40
	// ahead is how many requests a writer has under way at most: otherwise a busy
	// machine has thousands of them to answer at the end.
	ahead = 20
	// patience bounds one call.
	patience = 10 * time.Second
	// pause is the longest time between two requests of a writer.
	pause = 200 * time.Millisecond
	// secretSuffix is appended to the name of a Certificate to name its Secret.
	secretSuffix = "-tls"
)

// ack is an acknowledged write. Deletions have no revision.
type ack struct {
	key      string
	revision int64
}

// load is clients that write, each to any server that it can reach, and the
// answers that they got. It is safe for concurrent use.
type load struct {
	history *history

	mu      sync.Mutex
	servers []client.Client // nil is one that does not run
	acks    []ack
	lastAck time.Time
	// longestGap is the longest time in which nothing was acknowledged.
	longestGap time.Duration
}

func (l *load) set(server int, api client.Client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.servers[server] = api
}

// any returns a server that runs, or nil.
func (l *load) any() client.Client {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := rand.IntN(len(l.servers))
	for i := range l.servers {
		if api := l.servers[(first+i)%len(l.servers)]; api != nil {
			return api
		}
	}
	return nil
}

func (l *load) acknowledged(key, revision string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, a := time.Now(), ack{key: key}
	if revision != "" {
		a.revision, _ = strconv.ParseInt(revision, 10, 64) // 0 is never found
	}
	if !l.lastAck.IsZero() {
		l.longestGap = max(l.longestGap, now.Sub(l.lastAck))
	}
	l.lastAck = now
	l.acks = append(l.acks, a)
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acks)
}

// requestKind is a kind of request.
type requestKind struct {
	name string
	keys string // where they are stored
	make func(name string) client.Object
	// approve is nil for those that are approved without a person.
	approve func(client.Object) bool
	// then, if not nil, is called with each request that is stored.
	then func(context.Context, client.Object)
}

// requestKinds returns all kinds of requests. pod is the spec of those for
// pods.
func requestKinds(t *testing.T, pod certificatesv1beta1.PodCertificateRequestSpec) []requestKind {
	t.Helper()
	csr := apitest.NewCSR(t, "", certificatesv1.KubeAPIServerClientSignerName, pki.Subject{CommonName: "crash"}, apitest.NewKey(t))
	approved := apitest.NewCSR(t, "", certificatesv1.KubeAPIServerClientSignerName, pki.Subject{CommonName: approvedName}, apitest.NewKey(t))
	stub := podRequest(t, pod, "")
	pkcs10, err := pki.NewRequest(pki.Subject{DNSNames: []string{"crash.example.com"}}, apitest.NewKey(t))
	if err != nil {
		t.Fatal(err)
	}
	issuer := cmmeta.IssuerReference{Name: issuerName}
	named := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: corev1.NamespaceDefault}
	}
	inDefault := corev1.NamespaceDefault + "/"
	return []requestKind{
		{"csr", csrKeys, func(name string) client.Object {
			made := csr.DeepCopy()
			made.Name = name
			return made
		}, approve, nil},
		{"approved", csrKeys, func(name string) client.Object {
			made := approved.DeepCopy()
			made.Name = name
			return made
		}, nil, nil},
		{"pod", podRequestKeys + inDefault, func(name string) client.Object {
			made := stub.DeepCopy()
			made.ObjectMeta = named(name)
			return made
		}, nil, nil},
		{"request", requestKeys + inDefault, func(name string) client.Object {
			return &cmv1.CertificateRequest{ObjectMeta: named(name), Spec: cmv1.CertificateRequestSpec{Request: pkcs10, IssuerRef: issuer}}
		}, nil, nil},
		{"certificate", certificateKeys + inDefault, func(name string) client.Object {
			return &cmv1.Certificate{ObjectMeta: named(name), Spec: cmv1.CertificateSpec{
				SecretName: name + secretSuffix, DNSNames: []string{name + ".example.com"}, IssuerRef: issuer,
				PrivateKey: &cmv1.CertificatePrivateKey{Algorithm: cmv1.ECDSAKeyAlgorithm},
			}}
		}, nil, nil},
	}
}

// approve approves a request; it reports whether the request was undecided.
func approve(o client.Object) bool {
	csr := o.(*certificatesv1.CertificateSigningRequest)
	if len(csr.Status.Conditions) > 0 {
		return false
	}
	csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test", Message: "decided by a test",
	}}
	return true
}

// write makes requests until ctx ends.
func (l *load) write(ctx context.Context, s requestKind, writer int) {
	var mine []string
	for i := 0; ctx.Err() == nil; i++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(rand.N(pause)):
		}
		api := l.any()
		if api == nil || len(mine) >= ahead && !l.history.isAnswered(mine[len(mine)-ahead]) {
			continue
		}
		name := fmt.Sprintf("%s-%d-%d", s.name, writer, i)
		if l.request(ctx, api, s, name) {
			mine = append(mine, s.keys+name)
			if s.then != nil {
				s.then(ctx, s.make(name))
			}
		}
		if key, ok := l.history.oldestAnswered(mine, kept); ok {
			mine = mine[1:]
			l.remove(ctx, api, s, key)
		}
	}
}

// request reports whether a request was stored, according to the client's
// answer.
func (l *load) request(ctx context.Context, api client.Client, s requestKind, name string) bool {
	o, key := s.make(name), s.keys+name
	if call(ctx, func(ctx context.Context) error { return api.Create(ctx, o) }) != nil {
		return false // no answer said whether it was stored
	}
	l.acknowledged(key, o.GetResourceVersion())
	if s.approve == nil {
		l.history.awaits(key)
		return true
	}
	for ctx.Err() == nil && s.approve(o) {
		err := call(ctx, func(ctx context.Context) error { return api.SubResource("approval").Update(ctx, o) })
		if err == nil {
			l.acknowledged(key, o.GetResourceVersion())
			l.history.awaits(key)
			return true
		}
		o = l.read(ctx, o, key)
	}
	return true
}

// read gets an object from any server, however long it takes.
func (l *load) read(ctx context.Context, o client.Object, key string) client.Object {
	for ctx.Err() == nil {
		api := l.any()
		if api != nil && call(ctx, func(ctx context.Context) error { return api.Get(ctx, client.ObjectKeyFromObject(o), o) }) == nil {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return o
}

// remove deletes an answered request. With a Certificate it deletes the Secret
// too.
func (l *load) remove(ctx context.Context, api client.Client, s requestKind, key string) {
	o := s.make(key[len(s.keys):])
	if call(ctx, func(ctx context.Context) error { return api.Delete(ctx, o) }) != nil {
		return // a Certificate that stays would replace its Secret
	}
	l.acknowledged(key, "")
	if crt, ok := o.(*cmv1.Certificate); ok {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: crt.Namespace, Name: crt.Spec.SecretName}}
		_ = call(ctx, func(ctx context.Context) error { return api.Delete(ctx, secret) })
	}
}

// call is not interrupted by the end of ctx, because its answer counts.
func call(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	return f(ctx)
}
