package readcache_test

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/inprocess/readcache"
)

var (
	orders = v1alpha1.GroupVersion.WithResource("acmeorders")
	key    = client.ObjectKey{Namespace: "web", Name: "order"}
)

// store says at which revision the one object is.
type store struct {
	revision int64
	err      error
	allowed  bool
	asked    authorizer.Attributes
}

func (s *store) reader() *readcache.Reader {
	objects := s.objects()
	objects.Authorize(func(_ context.Context, request authorizer.Attributes) bool { s.asked = request; return s.allowed })
	return objects.Of("token")
}

func (s *store) objects() *readcache.Objects {
	return readcache.New(readcache.Config{
		Kinds: map[schema.GroupVersionResource]client.Object{orders: &v1alpha1.AcmeOrder{}},
		Revision: func(_ context.Context, of schema.GroupResource, at client.ObjectKey) (int64, error) {
			if of != orders.GroupResource() || at != key {
				return 0, errors.New("another object")
			}
			return s.revision, s.err
		},
		Users: map[string]*user.DefaultInfo{"token": {Name: "acme-server"}},
	})
}

func order(version, account string) *v1alpha1.AcmeOrder {
	return &v1alpha1.AcmeOrder{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, ResourceVersion: version},
		Spec:       v1alpha1.AcmeOrderSpec{Account: account},
	}
}

func TestGet(t *testing.T) {
	for name, c := range map[string]struct {
		store store
		kept  []*v1alpha1.AcmeOrder
		known bool
		gone  bool
		want  string
	}{
		"as stored":            {store: store{revision: 7, allowed: true}, kept: []*v1alpha1.AcmeOrder{order("7", "a")}, known: true, want: "a"},
		"changed since":        {store: store{revision: 8, allowed: true}, kept: []*v1alpha1.AcmeOrder{order("7", "a")}},
		"deleted since":        {store: store{revision: 0, allowed: true}, kept: []*v1alpha1.AcmeOrder{order("7", "a")}, known: true, gone: true},
		"never read":           {store: store{revision: 7, allowed: true}},
		"no right":             {store: store{revision: 7}, kept: []*v1alpha1.AcmeOrder{order("7", "a")}},
		"store fails":          {store: store{revision: 7, err: errors.New("no leader"), allowed: true}, kept: []*v1alpha1.AcmeOrder{order("7", "a")}},
		"older version later":  {store: store{revision: 7, allowed: true}, kept: []*v1alpha1.AcmeOrder{order("7", "b"), order("6", "a")}, known: true, want: "b"},
		"newer version later":  {store: store{revision: 7, allowed: true}, kept: []*v1alpha1.AcmeOrder{order("6", "a"), order("7", "b")}, known: true, want: "b"},
		"without a version":    {store: store{revision: 7, allowed: true}, kept: []*v1alpha1.AcmeOrder{order("", "a")}},
		"first of its version": {store: store{revision: 7, allowed: true}, kept: []*v1alpha1.AcmeOrder{order("7", "a"), order("7", "of a dry run")}, known: true, want: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			reader := c.store.reader()
			for _, o := range c.kept {
				reader.Keep(o)
			}
			got := &v1alpha1.AcmeOrder{}
			known, err := reader.Get(t.Context(), key, got)
			if known != c.known || apierrors.IsNotFound(err) != c.gone || got.Spec.Account != c.want {
				t.Errorf("known %v, %v: %v", known, err, got.Spec.Account)
			}
			if a := c.store.asked; a.GetUser().GetName() != "acme-server" || a.GetVerb() != "get" || a.GetResource() != "acmeorders" || a.GetNamespace() != "web" || a.GetName() != "order" {
				t.Errorf("asked whether %v is allowed", a)
			}
		})
	}
}

// Whoever changes an object changes nobody else's.
func TestCopies(t *testing.T) {
	s := store{revision: 7, allowed: true}
	reader, kept := s.reader(), order("7", "a")
	kept.Labels = map[string]string{"a": "b"}
	reader.Keep(kept)
	kept.Labels["a"] = "changed by the writer"
	for range 2 {
		got := &v1alpha1.AcmeOrder{}
		if known, err := reader.Get(t.Context(), key, got); !known || err != nil || got.Labels["a"] != "b" {
			t.Fatalf("%v %v %v", known, err, got.Labels)
		}
		got.Labels["a"] = "changed by a reader"
	}
}

// An object is lent to the other users, as long as its version is stored.
func TestLend(t *testing.T) {
	s := store{revision: 7, allowed: true}
	objects := s.objects()
	objects.Users["other"] = &user.DefaultInfo{Name: "acme-approver"}
	objects.Authorize(func(context.Context, authorizer.Attributes) bool { return s.allowed })
	lender, other := objects.Of("token"), objects.Of("other")
	lender.Keep(order("7", "stored"))
	end := lender.Lend(order("7", "lent"))
	reads := func(who string, r *readcache.Reader, want string) {
		t.Helper()
		got := order("", "")
		if _, err := r.Get(t.Context(), key, got); err != nil || got.Spec.Account != want {
			t.Errorf("%s: %v, %q, want %q", who, err, got.Spec.Account, want)
		}
	}
	reads("the lender", lender, "stored")
	reads("another user", other, "lent")
	s.allowed = false
	reads("a user without the right", other, "")
	s.allowed, s.revision = true, 8
	reads("after a change", other, "")
	s.revision = 7
	end()
	reads("after the end", other, "stored")
}

// Strangers, and kinds that are not kept, go to the API.
func TestOthers(t *testing.T) {
	var none *readcache.Objects
	if none.Of("token") != nil {
		t.Error("no objects have a reader")
	}
	s := store{revision: 7, allowed: true}
	reader := s.reader()
	if reader.Of("another token") != nil {
		t.Error("a stranger has a reader")
	}
	if known, err := reader.Get(t.Context(), key, &v1alpha1.Signer{}); known || err != nil {
		t.Errorf("a Signer: %v, %v", known, err)
	}
	var nobody *readcache.Reader
	nobody.Keep(order("7", "a"))
	if known, err := nobody.Get(t.Context(), key, order("", "")); known || err != nil {
		t.Errorf("nobody: %v, %v", known, err)
	}
}

// Until the API can authorize reads, it is asked for every object.
func TestBeforeAuthorize(t *testing.T) {
	s := store{revision: 7, allowed: true}
	reader := s.objects().Of("token")
	reader.Keep(order("7", "a"))
	if known, err := reader.Get(t.Context(), key, order("", "")); known || err != nil {
		t.Errorf("known %v, %v", known, err)
	}
}
