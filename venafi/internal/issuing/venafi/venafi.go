// Package venafi implements the issuers that sign by a server of CyberArk
// Certificate Manager, which was called Venafi before.
package venafi

import (
	"context"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/venafi/internal/signer/venafi"
)

// Type is the type of issuers with spec.venafi.
var Type = issuing.Type{
	Name:      certmanager.TypeVenafi,
	Component: "cert-manager-certificaterequests-issuer-venafi",
}

// Servers connects to the servers of issuers. It must be safe for concurrent use. Its errors
// are the errors of the methods of venafi.Pool.
type Servers interface {
	Verify(ctx context.Context, i venafi.Issuer, access venafi.Access) error
	Request(ctx context.Context, i venafi.Issuer, access venafi.Access, o venafi.Order) (id string, err error)
	Retrieve(ctx context.Context, i venafi.Issuer, access venafi.Access, id string, o venafi.Order) (chain []byte, err error)
	// NextCheck returns when to check an issuer again that is ready.
	NextCheck() time.Duration
}

// Shared is what all backends of a process share: two requests for one object on
// a server can be of different kinds.
type Shared struct {
	servers Servers
	turns   turns
	pickups pickups
}

// Share returns what backends share.
func Share(servers Servers) *Shared {
	return &Shared{servers: servers, turns: newTurns(), pickups: newPickups()}
}

// Changes notifies of requests whose turn has come. It is for issuing.Config.
func (s *Shared) Changes(changed func(issuing.Reference)) (cancel func()) {
	return s.turns.next.Subscribe(func(uid string) { changed(turnOf(uid)) })
}

// turnOf is the turn of a request among the Needs of issuers.
func turnOf(uid string) issuing.Reference {
	return issuing.Reference{Kind: schema.GroupKind{Group: "venafi", Kind: "Turn"}, NamespacedName: types.NamespacedName{Name: uid}}
}

// New returns the backend of the issuers. The client in cfg needs get and patch on the
// requests, whose annotations hold the identifiers of the certificates to retrieve.
func New(cfg issuing.Config, shared *Shared) issuing.Backend {
	return &backend{Config: cfg, Shared: shared}
}

type backend struct {
	issuing.Config
	*Shared
}

// Needs returns the Secrets of an issuer, and the turn of a request.
func (b *backend) Needs(of cmv1.GenericIssuer, req issuing.Request) []issuing.Reference {
	spec := of.GetSpec().Venafi
	if spec == nil {
		return nil
	}
	namespace := certmanager.SecretNamespace(of, b.ClusterResources)
	var needs []issuing.Reference
	for _, name := range secretsOf(spec) {
		if name != "" {
			needs = append(needs, issuing.Secret(types.NamespacedName{Namespace: namespace, Name: name}))
		}
	}
	if req.UID != "" {
		needs = append(needs, turnOf(req.UID))
	}
	return needs
}
