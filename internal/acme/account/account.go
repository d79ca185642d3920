// Package account makes clients for the ACME accounts of Issuers.
package account

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/acme"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/api/rfc8555"
)

// Config configures Accounts.
type Config struct {
	// Pool holds the connections and the limits of all accounts.
	Pool *acme.Pool
	// Secrets reads Secrets. It must read past caches.
	Secrets client.Reader
	// ClusterResources is the namespace of the Secrets of ClusterIssuers.
	ClusterResources string
	// GuardLoopback refuses servers at loopback addresses for Issuers: their authors could
	// otherwise call programs on this host. ClusterIssuers may name such servers.
	GuardLoopback bool
	// Standing records the answers of servers about the accounts; nil means that it is not
	// shared.
	Standing *Standing
}

// Accounts makes the clients of the accounts of Issuers. It is safe for
// concurrent use.
type Accounts struct {
	cfg Config

	mu      sync.Mutex
	clients map[types.UID]known // mu guards it
}

// New returns Accounts.
func New(cfg Config) *Accounts {
	if cfg.Standing == nil {
		cfg.Standing = NewStanding()
	}
	return &Accounts{cfg: cfg, clients: map[types.UID]known{}}
}

// Standing returns the recorded answers of servers about the accounts.
func (a *Accounts) Standing() *Standing { return a.cfg.Standing }

// known is the client of an issuer, and what it was made from.
type known struct {
	from   origin
	client *acme.Client
	// read is when its Secret was read last.
	read time.Time
}

type origin struct {
	generation      int64
	uri, keyHash    string
	secretUID       types.UID
	resourceVersion string
}

// NextSuffix is the suffix of the entry of a Secret with the next key of an account. While
// this entry exists, the server may have either key.
const NextSuffix = ".next"

// maxKnown is the number of accounts in memory. For others, the server is asked again.
const maxKnown = 10000

// NotReady means that an issuer has no account yet, or no usable one.
type NotReady struct {
	// Text tells users what is missing.
	Text string
}

func (e *NotReady) Error() string {
	return "ACME client for issuer not initialised/available: " + e.Text
}

func notReady(format string, args ...any) error {
	return &NotReady{Text: fmt.Sprintf(format, args...)}
}

// Of returns the client of an issuer's account, from its spec, status and key.
// Its error is a *NotReady if the issuer has to be set up first; others are
// temporary.
func (a *Accounts) Of(ctx context.Context, issuer cmv1.GenericIssuer) (*acme.Client, error) {
	spec, status := issuer.GetSpec().ACME, issuer.GetStatus().ACME
	switch {
	case spec == nil:
		return nil, notReady("the issuer is not an ACME issuer")
	case status == nil || status.URI == "":
		return nil, notReady("the issuer has no account yet")
	}
	of := origin{generation: issuer.GetGeneration(), uri: status.URI, keyHash: status.LastPrivateKeyHash}
	if c := a.fresh(issuer.GetUID(), of); c != nil {
		return c, nil
	}
	now := a.cfg.Pool.Clock.Now()
	name, entry := a.KeySecret(issuer)
	secret := &corev1.Secret{}
	err := a.cfg.Secrets.Get(ctx, name, secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, notReady("the Secret %s with the key of the account does not exist", name)
	case err != nil:
		return nil, fmt.Errorf("reading secret %s: %w", name, err)
	}
	from := of
	from.secretUID, from.resourceVersion = secret.UID, secret.ResourceVersion
	if secret.Data[entry+NextSuffix] != nil && !a.cfg.Standing.Found(issuer) {
		return nil, notReady("the key of the account is being replaced")
	}
	if c := a.known(issuer.GetUID(), from, now); c != nil {
		return c, nil
	}
	return a.open(issuer, secret, entry, from, now)
}

// open makes the client of an issuer.
func (a *Accounts) open(issuer cmv1.GenericIssuer, secret *corev1.Secret, entry string, from origin, now time.Time) (*acme.Client, error) {
	key, err := ReadKey(secret, entry)
	if err != nil {
		return nil, notReady("%v", err)
	}
	hash, err := KeyHash(key)
	if err != nil {
		return nil, err
	}
	if from.keyHash != "" && from.keyHash != hash {
		return nil, notReady("the key of the account has changed, and the issuer is not set up with the new one yet")
	}
	c, err := a.Client(issuer, key, from.uri)
	if err != nil {
		return nil, notReady("%v", err)
	}
	a.keep(issuer.GetUID(), known{from, c, now})
	return c, nil
}

// Client returns a client for the server of an issuer. account is the URL of the
// account; empty if it is not known.
func (a *Accounts) Client(issuer cmv1.GenericIssuer, key Key, account string) (*acme.Client, error) {
	spec := issuer.GetSpec().ACME
	return a.cfg.Pool.Client(acme.Config{
		Directory: spec.Server, Key: key, Account: account, CABundle: spec.CABundle, SkipTLSVerify: spec.SkipTLSVerify,
		NoLoopback: a.cfg.GuardLoopback && issuer.GetNamespace() != "",
	})
}

// RenewalInfo asks the server of an issuer when a certificate should be renewed; certID is
// as in RFC 9773 section 4.1. Info is nil if the server does not offer that.
func (a *Accounts) RenewalInfo(ctx context.Context, issuer cmv1.GenericIssuer, certID string) (info *rfc8555.RenewalInfo, err error) {
	c, err := a.Of(ctx, issuer)
	if err != nil {
		return nil, err
	}
	got, err := c.RenewalInfo(ctx, certID)
	switch {
	case errors.Is(err, acme.ErrNoRenewalInfo):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &got, nil
}

// known returns the client that was made from the same objects, whose Secret was
// read now.
func (a *Accounts) known(uid types.UID, from origin, now time.Time) *acme.Client {
	a.mu.Lock()
	defer a.mu.Unlock()
	k, ok := a.clients[uid]
	if !ok || uid == "" || k.from != from {
		return nil
	}
	k.read = now
	a.clients[uid] = k
	return k.client
}

// secretFor is for how long a Secret that was read is not read again. Each step
// of each Order and Challenge asks for the client. A key that was replaced
// changes the status of the issuer, which is seen at once.
const secretFor = 5 * time.Second

// fresh returns the client of an issuer whose Secret was read not long ago.
func (a *Accounts) fresh(uid types.UID, of origin) *acme.Client {
	a.mu.Lock()
	defer a.mu.Unlock()
	k, ok := a.clients[uid]
	of.secretUID, of.resourceVersion = k.from.secretUID, k.from.resourceVersion
	if age := a.cfg.Pool.Clock.Since(k.read); !ok || uid == "" || k.from != of || age < 0 || age >= secretFor {
		return nil
	}
	return k.client
}

func (a *Accounts) keep(uid types.UID, k known) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for any := range a.clients {
		if len(a.clients) < maxKnown {
			break
		}
		delete(a.clients, any)
	}
	a.clients[uid] = k
}

// KeySecret returns the Secret and the entry that have the key of an issuer's
// account.
func (a *Accounts) KeySecret(issuer cmv1.GenericIssuer) (secret types.NamespacedName, entry string) {
	ref := issuer.GetSpec().ACME.PrivateKey
	entry = ref.Key
	if entry == "" {
		entry = corev1.TLSPrivateKeyKey
	}
	return a.inNamespace(issuer, ref.Name), entry
}

func (a *Accounts) inNamespace(issuer cmv1.GenericIssuer, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: certmanager.SecretNamespace(issuer, a.cfg.ClusterResources), Name: name}
}
