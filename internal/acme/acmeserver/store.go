package acmeserver

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acme/acmeserver/facts"
	"github.com/certplane/certplane/internal/acme/acmeserver/jws"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

// The indexes of orders in the cache.
const (
	byAccount = "acme.account"
	byCertID  = "acme.certID"
	byDigest  = "acme.digest"
	// The keys of certificates, as ofKey names them.
	byKey        = "acme.key"
	byBlockedKey = "acme.blockedKey"
)

// byFormerKey is the index of Signers by the key identifiers of their former CAs.
const byFormerKey = "acme.formerKey"

// Sizes and ages of what is kept in memory in addition to the cache.
const (
	keptKeys      = 10000
	keptWrites    = 1000
	keptAnnounced = 10000
	keptUnknown   = 10000
	keptCompiled  = 1000
	unknownFor    = 5 * time.Second
	accountFor    = 10 * time.Second
)

// maxTries is how often a change with conflicts is tried.
const maxTries = 5

// store reads and writes the objects of the server. It reads objects that change from the
// API, so that two processes never show a client different states, and objects that change
// rarely or are only counted from a cache. Objects from the cache must not be modified.
type store struct {
	live  client.Client
	cache ctrlcache.Cache
	now   func() time.Time
	// keys maps names of AcmeAccountKeys, which are derived from the key, to *jws.Key.
	keys *lru.Cache
	// written holds the accounts that this process has written: the cache gets them later.
	written *lru.Cache
	// unknown holds the names of accounts that do not exist.
	unknown *cache.LRUExpireCache
	// compiled holds *acmeorder.Endpoint and *acmeorder.ExternalKey by version.
	compiled *lru.Cache
	// identities holds the UIDs of ServiceAccounts.
	identities *cache.LRUExpireCache
}

func newStore(ctx context.Context, cfg Config) (*store, error) {
	timer := nowClock{cfg.Now}
	s := &store{
		live: cfg.Client, cache: cfg.Cache, now: cfg.Now, keys: lru.New(keptKeys), written: lru.New(keptWrites), compiled: lru.New(keptCompiled),
		unknown: cache.NewLRUExpireCacheWithClock(keptUnknown, timer), identities: cache.NewLRUExpireCacheWithClock(keptUnknown, timer),
	}
	for name, of := range map[string]func(*v1alpha1.AcmeOrder) string{
		byAccount:    func(o *v1alpha1.AcmeOrder) string { return o.Spec.Account },
		byCertID:     ofCertificate(func(c *v1alpha1.AcmeCertificate) string { return c.CertID }),
		byDigest:     ofCertificate(func(c *v1alpha1.AcmeCertificate) string { return c.Digest }),
		byKey:        ofKey(func(*v1alpha1.AcmeCertificate) bool { return true }),
		byBlockedKey: ofKey(acmeorder.IsBlocked),
	} {
		err := cfg.Cache.IndexField(ctx, &v1alpha1.AcmeOrder{}, name, func(o client.Object) []string {
			if value := of(o.(*v1alpha1.AcmeOrder)); value != "" {
				return []string{value}
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("indexing AcmeOrders: %w", err)
		}
	}
	err := cfg.Cache.IndexField(ctx, &v1alpha1.Signer{}, byFormerKey, func(o client.Object) []string {
		var ids []string
		for _, ca := range o.(*v1alpha1.Signer).Status.FormerCAs {
			ids = append(ids, ca.SubjectKeyID)
		}
		return ids
	})
	if err != nil {
		return nil, fmt.Errorf("indexing Signers: %w", err)
	}
	for _, kind := range []client.Object{&v1alpha1.AcmeEndpoint{}, &v1alpha1.AcmeExternalKey{}} {
		if _, err := cfg.Cache.GetInformer(ctx, kind, ctrlcache.BlockUntilSynced(false)); err != nil {
			return nil, fmt.Errorf("caching %T: %w", kind, err)
		}
	}
	return s, nil
}

// nowClock is a clock for the caches.
type nowClock struct{ now func() time.Time }

func (c nowClock) Now() time.Time                  { return c.now() }
func (c nowClock) Since(t time.Time) time.Duration { return c.now().Sub(t) }

var _ clock.PassiveClock = nowClock{}

// ofKey returns the index of the keys of certificates for which is holds.
func ofKey(is func(*v1alpha1.AcmeCertificate) bool) func(*v1alpha1.AcmeOrder) string {
	return func(o *v1alpha1.AcmeOrder) string {
		if c := o.Status.Certificate; c != nil && c.KeyDigest != "" && is(c) {
			return keyAt(o.Spec.Endpoint, c.KeyDigest)
		}
		return ""
	}
}

// keyAt is the value of indexes of keys. Each endpoint has its own certificates.
func keyAt(endpoint, digest string) string { return endpoint + "/" + digest }

func ofCertificate(of func(*v1alpha1.AcmeCertificate) string) func(*v1alpha1.AcmeOrder) string {
	return func(o *v1alpha1.AcmeOrder) string {
		if o.Status.Certificate == nil {
			return ""
		}
		return of(o.Status.Certificate)
	}
}

// TransformOrder takes from an order of a cache what is large and read from the API.
// It is for cache.Options, and changes nothing that another cache may share.
func TransformOrder(object any) (any, error) {
	o, ok := object.(*v1alpha1.AcmeOrder)
	if !ok {
		return object, nil
	}
	o.ManagedFields, o.Status.CSR = nil, nil
	if o.Status.Certificate != nil {
		trimmed := *o.Status.Certificate
		trimmed.Chain, trimmed.Alternates = "", nil
		o.Status.Certificate = &trimmed
	}
	if o.Status.Approval != nil {
		trimmed := *o.Status.Approval
		trimmed.Sealed, trimmed.SealedOthers = "", nil
		o.Status.Approval = &trimmed
	}
	return o, nil
}

// isReady reports whether an endpoint takes messages: unless it is being deleted, or its
// condition Ready is False.
func isReady(e *v1alpha1.AcmeEndpoint) bool {
	return e.DeletionTimestamp == nil && !slices.ContainsFunc(e.Status.Conditions, func(c metav1.Condition) bool { return c.Type == "Ready" && c.Status == "False" })
}

// endpoint returns a compiled endpoint.
func (s *store) endpoint(ctx context.Context, name string) (*acmeorder.Endpoint, error) {
	object := &v1alpha1.AcmeEndpoint{}
	if err := s.cache.Get(ctx, client.ObjectKey{Name: name}, object, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	version := string(object.UID) + "/" + object.ResourceVersion
	if known, ok := s.compiled.Get(version); ok {
		return known.(*acmeorder.Endpoint), nil
	}
	compiled, errs := acmeorder.Compile(object)
	if err := errs.ToAggregate(); err != nil {
		klog.FromContext(ctx).Error(err, "The AcmeEndpoint takes no orders", "endpoint", name)
		return nil, unavailable(s.now(), "the endpoint is not ready")
	}
	s.compiled.Add(version, compiled)
	return compiled, nil
}

// externalKey returns a compiled external key, nil if it does not exist.
func (s *store) externalKey(ctx context.Context, namespace, name string, fresh bool) (*acmeorder.ExternalKey, error) {
	object := &v1alpha1.AcmeExternalKey{}
	err := s.get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object, fresh)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	version := string(object.UID) + "/" + object.ResourceVersion
	if known, ok := s.compiled.Get(version); ok {
		return known.(*acmeorder.ExternalKey), nil
	}
	compiled, errs := acmeorder.CompileKey(object)
	if err := errs.ToAggregate(); err != nil {
		klog.FromContext(ctx).Error(err, "The AcmeExternalKey cannot be used", "externalKey", namespace+"/"+name)
		return nil, nil
	}
	s.compiled.Add(version, compiled)
	return compiled, nil
}

// get reads an object from the cache, or from the API if it is fresh or unknown.
func (s *store) get(ctx context.Context, key client.ObjectKey, object client.Object, fresh bool) error {
	if !fresh {
		err := s.cache.Get(ctx, key, object, client.UnsafeDisableDeepCopy)
		if err == nil || !apierrors.IsNotFound(err) {
			return err
		}
	}
	return s.live.Get(ctx, key, object)
}

// account returns an account. What this process has written is known at once.
func (s *store) account(ctx context.Context, name string, fresh bool) (*v1alpha1.AcmeAccount, error) {
	notFound := apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("acmeaccounts").GroupResource(), name)
	if !isID(name) {
		return nil, notFound
	}
	if _, unknown := s.unknown.Get(name); unknown {
		return nil, notFound
	}
	a := &v1alpha1.AcmeAccount{}
	err := s.get(ctx, client.ObjectKey{Name: name}, a, fresh)
	if err == nil && !fresh && a.Status.Key == "" {
		// The cache may still have the state before the second write, which completes the
		// account.
		a = &v1alpha1.AcmeAccount{}
		err = s.get(ctx, client.ObjectKey{Name: name}, a, true)
	}
	switch {
	case apierrors.IsNotFound(err):
		s.unknown.Add(name, true, unknownFor)
		return nil, notFound
	case err != nil:
		return nil, err
	}
	if own, ok := s.written.Get(name); ok && !fresh && own.(*v1alpha1.AcmeAccount).UID == a.UID && isLater(own.(*v1alpha1.AcmeAccount), a) {
		return own.(*v1alpha1.AcmeAccount), nil
	}
	return a, nil
}

func isLater(a, b client.Object) bool {
	one, err := strconv.ParseUint(a.GetResourceVersion(), 10, 64)
	other, otherErr := strconv.ParseUint(b.GetResourceVersion(), 10, 64)
	return err == nil && otherErr == nil && one > other
}

// wrote remembers the state of an account that was just stored.
func (s *store) wrote(a *v1alpha1.AcmeAccount) {
	s.unknown.Remove(a.Name)
	s.written.Add(a.Name, a)
}

// key returns the key with the name of an AcmeAccountKey. The name follows from the
// key: it never changes.
func (s *store) key(ctx context.Context, name string) (*jws.Key, error) {
	if known, ok := s.keys.Get(name); ok {
		return known.(*jws.Key), nil
	}
	object := &v1alpha1.AcmeAccountKey{}
	if err := s.live.Get(ctx, client.ObjectKey{Name: name}, object); err != nil {
		return nil, err
	}
	key, err := jws.StoredKey([]byte(object.Spec.JWK))
	if err != nil {
		return nil, fmt.Errorf("parsing the AcmeAccountKey %s: %w", name, err)
	}
	s.keys.Add(name, key)
	return key, nil
}

// facts returns what decides whether an account can act.
func (s *store) facts(ctx context.Context, a *v1alpha1.AcmeAccount, fresh bool) (acmeorder.AccountFacts, error) {
	f := acmeorder.AccountFacts{Account: a}
	var err error
	if of := a.Spec.ExternalKey; of != nil {
		if f.ExternalKey, err = s.externalKey(ctx, of.Namespace, of.Name, fresh); err != nil {
			return f, err
		}
	}
	f.ServiceAccountUID, f.ServiceAccountGone, err = s.serviceAccount(ctx, a.Spec.ServiceAccount)
	return f, err
}

// serviceAccount is as facts.ServiceAccount has it, kept for a while.
func (s *store) serviceAccount(ctx context.Context, of v1alpha1.AcmeServiceAccount) (uid string, gone bool, err error) {
	if known, ok := s.identities.Get(of); ok {
		return known.(string), false, nil
	}
	uid, gone, err = facts.ServiceAccount(ctx, s.live, of)
	if err == nil && !gone {
		s.identities.Add(of, uid, accountFor)
	}
	return uid, gone, err
}
