package server

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/acme/acmeserver/attempts"
	acmelistener "github.com/certplane/certplane/internal/acme/acmeserver/listener"
	"github.com/certplane/certplane/internal/admission"
	"github.com/certplane/certplane/internal/apiserver"
	"github.com/certplane/certplane/internal/frontend"
	"github.com/certplane/certplane/internal/frontend/crlserver"
	"github.com/certplane/certplane/internal/inprocess/issueoncreate"
	"github.com/certplane/certplane/internal/inprocess/loopback"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/run/controllermanager"
	"github.com/certplane/certplane/internal/store/datadir"
)

// opened contains the resources that a start opens before the parts are assembled.
type opened struct {
	cfg         Config
	listener    net.Listener
	serving     *servingCert
	credentials *credentials
	store       *store
	// lease is nil if the server has the store to itself.
	lease *controllermanager.Lease
	// acme is nil if the ACME server is off.
	acme *acmelistener.Server
}

// assemble builds the parts; none runs yet.
func assemble(o opened) (*parts, error) {
	b, err := newBase(o)
	if err != nil {
		return nil, err
	}
	beside, err := b.openFrontEnds()
	if err != nil {
		return nil, err
	}
	api, err := b.newAPI(beside)
	if err != nil {
		return nil, err
	}
	b.inside.Recent.Authorize(allowedBy(api))
	advertiser, err := newAdvertiser(advertised(o.cfg.Serving, o.listener), b.asServer, o.store)
	if err != nil {
		return nil, err
	}
	newManager := b.controllers(api).newManager
	manager, err := newManager()
	if err != nil {
		return nil, err
	}
	installing, err := b.ids.asAccount(rights.InstallCRDs.Account)
	if err != nil {
		return nil, err
	}
	signers, err := readyMade(o.cfg.Settings)
	if err != nil {
		return nil, err
	}
	return &parts{
		url: b.url, asServer: b.asServer, store: o.store, api: api, controllers: manager, newControllers: newManager, lease: o.lease,
		advertise: advertiser, frontEnds: append(beside, frontend.API(api.Run)), policies: b.policies,
		installing: installing, kinds: b.kinds, readyMade: signers, filled: make(chan struct{}),
	}, nil
}

// base is what several parts share.
type base struct {
	opened
	url      string
	inside   *loopback.Transport
	ids      identities
	asServer *rest.Config

	clientCA *dynamiccertificates.DynamicFileCAContent
	issuing  *issuingCAs
	kinds    *ownKinds

	policies   *policies.Policies
	responders controllermanager.Responders
	onCreate   *issueoncreate.Hub
	attempts   *attempts.Desk
}

func newBase(o opened) (base, error) {
	b := base{
		opened: o, url: localURL(o.cfg.Serving.Listen, o.listener), kinds: newOwnKinds(o.cfg.Policy),
		onCreate: newOnCreate(o.cfg.API), attempts: &attempts.Desk{},
	}
	b.inside, b.ids = newInside(b.url, o.store)
	b.asServer = b.ids.asServer()
	if o.lease != nil { // as the server itself, so that no authorizer can keep the controllers from working
		o.lease.API = b.asServer
	}
	var err error
	if b.clientCA, b.issuing, err = openClientCAs(o.cfg, o.credentials); err != nil {
		return b, err
	}
	if b.policies, err = openPolicies(o.cfg, b.asServer, o.credentials); err != nil {
		return b, err
	}
	b.responders, err = controllermanager.NewResponders(o.cfg.ACME, legacyregistry.Registerer())
	return b, err
}

// openClientCAs returns the CAs of clients: those in pki/, and those that signers of clients
// have signed with.
func openClientCAs(cfg Config, credentials *credentials) (*dynamiccertificates.DynamicFileCAContent, *issuingCAs, error) {
	clientCA, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca", credentials.clientCA.trusted)
	if err != nil {
		return nil, nil, fmt.Errorf("using the client CA: %w", err)
	}
	issuing, err := openIssuingCAs(filepath.Join(datadir.Dir(cfg.DataDir).PKI(), datadir.IssuingCAs), time.Now())
	if err != nil {
		return nil, nil, err
	}
	issuing.honour(credentials.clientCA.authority)
	return clientCA, issuing, nil
}

// openFrontEnds returns the HTTP front ends of the process other than the API.
func (b base) openFrontEnds() ([]frontend.FrontEnd, error) {
	kinds, err := controllermanager.NewScheme()
	if err != nil {
		return nil, err
	}
	serves := frontend.Config{
		ACME: b.acme, ACMEPolicies: b.policies, ACMEAttempts: b.attempts,
		ACMEIssuers: controllermanager.Config{Settings: b.cfg.Settings}.AnswersForIssuers(),
	}
	if b.cfg.Revocation.servesLists() {
		serves.Lists = &crlserver.Config{Address: b.cfg.Revocation.Listen, Field: listListen, Lists: b.store.backend.Records.Lists.Lists}
	}
	serves.HTTP01, serves.TLSALPN01 = b.responders.FrontEnds(b.cfg.ACME)
	if err := b.serveRevocations(&serves); err != nil {
		return nil, err
	}
	return frontend.Open(frontend.Process{
		As: b.ids.asAccount, Own: b.ids.asServer(), Namespace: rights.ServeNamespace, Several: b.store.backend.Shared,
		Scheme: kinds, Mapper: newMapper, Now: time.Now, Metrics: legacyregistry.Registerer(),
	}, serves)
}

// newAPI returns the API server, which has the paths and probes of frontEnds.
func (b base) newAPI(frontEnds []frontend.FrontEnd) (*apiserver.Server, error) {
	pages, err := openConsole(b.cfg.Console, b.url, b.inside.Objects, b.credentials)
	if err != nil {
		return nil, err
	}
	return apiserver.New(apiserver.Config{
		Listener:          b.listener,
		Clock:             clock.RealClock{},
		ServingCert:       b.serving,
		ClientCAs:         []dynamiccertificates.CAContentProvider{b.clientCA, b.issuing},
		Loopback:          b.asServer,
		Inside:            b.inside.Serve,
		Console:           pages,
		Objects:           b.inside.Objects,
		Tokens:            b.ids.tokens,
		Storage:           b.store.backend,
		TLS:               b.cfg.Serving.TLS,
		API:               b.cfg.API,
		Admission:         b.cfg.Admission,
		Audit:             b.cfg.Audit,
		Tracing:           b.cfg.Tracing,
		Authentication:    b.cfg.Authentication,
		ServiceAccountKey: b.credentials.serviceAccountKey,
		Authorization:     b.cfg.Authorization,
		DelegatedSigners:  b.cfg.Signing.Delegated(),
		Namespaces:        []string{b.cfg.CertManager.ClusterResourceNamespace},
		FrontEnds:         frontEnds,
		Policies:          b.policies,
		KindsServed:       b.kinds.check,
		OnCreate:          apiserver.OnCreate{Hub: b.onCreate, Account: func(name string) user.Info { return accountInfo(name) }},
	})
}

// controllers returns the dependencies of the controllers.
func (b base) controllers(api *apiserver.Server) controllers {
	return controllers{
		ids: b.ids, credentials: b.credentials, settings: b.cfg.Settings, responders: b.responders, policies: b.policies, lease: b.lease, onCreate: b.onCreate,
		clients:            clientCAs{honoured: honoured(api.ClientCAs()), users: honoured(api.UserCAs()), honour: b.issuing.honour},
		acme:               acmeServer(b.acme, b.attempts, b.listener, b.cfg.Etcd.Servers),
		admitsTrustBundles: !slices.Contains(b.cfg.Admission.DisabledPlugins, admission.TrustBundle),
		lists:              lists{settings: b.cfg.Revocation, records: b.store.backend.Records, restored: datadir.Dir(b.cfg.DataDir).Restored()},
	}
}
