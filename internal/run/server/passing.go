package server

import (
	"context"
	"fmt"
	"path"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api"
	"github.com/certplane/certplane/internal/apiserver"
	"github.com/certplane/certplane/internal/inprocess/loopback"
	"github.com/certplane/certplane/internal/inprocess/objectpass"
	"github.com/certplane/certplane/internal/inprocess/readcache"
	"github.com/certplane/certplane/internal/rights"
)

// newInside returns the transport with which components of this process connect to its API,
// at url, and their identities.
func newInside(url string, store *store) (*loopback.Transport, identities) {
	objects := objectpass.New(api.Scheme)
	objects.Add(passedKinds())
	inside := loopback.New(objects)
	ids := newIdentities(ownClient(url, inside), rights.Accounts())
	inside.Recent = readcache.New(recentObjects(ids, store))
	return inside, ids
}

// passedKinds are the kinds of custom resources whose objects the API and the parts of
// this process pass each other: those that are written most.
func passedKinds() map[schema.GroupVersionKind]objectpass.Custom {
	return map[schema.GroupVersionKind]objectpass.Custom{
		cmv1.SchemeGroupVersion.WithKind(cmv1.CertificateKind):        {Object: &cmv1.Certificate{}, List: &cmv1.CertificateList{}},
		cmv1.SchemeGroupVersion.WithKind(cmv1.CertificateRequestKind): {Object: &cmv1.CertificateRequest{}, List: &cmv1.CertificateRequestList{}},
		acmev1.SchemeGroupVersion.WithKind("Order"):                   {Object: &acmev1.Order{}, List: &acmev1.OrderList{}},
		acmev1.SchemeGroupVersion.WithKind("Challenge"):               {Object: &acmev1.Challenge{}, List: &acmev1.ChallengeList{}},
		v1alpha1.GroupVersion.WithKind("AcmeAccount"):                 {Object: &v1alpha1.AcmeAccount{}, List: &v1alpha1.AcmeAccountList{}},
		v1alpha1.GroupVersion.WithKind("AcmeOrder"):                   {Object: &v1alpha1.AcmeOrder{}, List: &v1alpha1.AcmeOrderList{}},
	}
}

// recentObjects configures the objects that components of this process can read without the
// API: the objects of the ACME server, which it reads with each request of a client.
func recentObjects(ids identities, store *store) readcache.Config {
	return readcache.Config{
		Kinds: map[schema.GroupVersionResource]client.Object{
			v1alpha1.GroupVersion.WithResource("acmeaccountkeys"):  &v1alpha1.AcmeAccountKey{},
			v1alpha1.GroupVersion.WithResource("acmeaccounts"):     &v1alpha1.AcmeAccount{},
			v1alpha1.GroupVersion.WithResource("acmeendpoints"):    &v1alpha1.AcmeEndpoint{},
			v1alpha1.GroupVersion.WithResource("acmeexternalkeys"): &v1alpha1.AcmeExternalKey{},
			v1alpha1.GroupVersion.WithResource("acmeorders"):       &v1alpha1.AcmeOrder{},
		},
		Revision: store.revision,
		Users:    ids.tokens,
	}
}

// allowedBy returns whether an API server would allow a request.
func allowedBy(server *apiserver.Server) readcache.Allows {
	return func(ctx context.Context, request authorizer.Attributes) bool {
		return server.Decide(ctx, request).Decision == authorizer.DecisionAllow
	}
}

// revision returns the revision at which an object was last written, 0 if there is
// none. The answer is as of the call or later: it is never older than an event that a
// watch has delivered.
func (s *store) revision(ctx context.Context, of schema.GroupResource, key client.ObjectKey) (int64, error) {
	found, err := s.get(ctx, path.Join(s.backend.Prefix, of.Group, of.Resource, key.Namespace, key.Name), clientv3.WithKeysOnly())
	if err != nil {
		return 0, fmt.Errorf("reading the revision of %s %s: %w", of, key, err)
	}
	if found == nil {
		return 0, nil
	}
	return found.ModRevision, nil
}

// get returns the value of a key, nil if it does not exist. options apply to an external
// store.
func (s *store) get(ctx context.Context, key string, options ...clientv3.OpOption) (*mvccpb.KeyValue, error) {
	if s.embedded != nil {
		return s.embedded.Get(ctx, key)
	}
	answer, err := s.client.Get(ctx, key, options...)
	if err != nil || len(answer.Kvs) == 0 {
		return nil, err
	}
	return answer.Kvs[0], nil
}
