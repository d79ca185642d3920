package apiserver

import (
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/certplane/certplane/internal/admission"
	"github.com/certplane/certplane/internal/api"
	"github.com/certplane/certplane/internal/handles"
	"github.com/certplane/certplane/internal/registry/admissionregistration"
	"github.com/certplane/certplane/internal/registry/authentication"
	"github.com/certplane/certplane/internal/registry/authorization"
	"github.com/certplane/certplane/internal/registry/certificates"
	"github.com/certplane/certplane/internal/registry/coordination"
	"github.com/certplane/certplane/internal/registry/core"
	"github.com/certplane/certplane/internal/registry/events"
	"github.com/certplane/certplane/internal/registry/inventory"
	"github.com/certplane/certplane/internal/registry/rbac"
)

// installGroups adds every served API group to server.
func installGroups(server *genericapiserver.GenericAPIServer, config *genericapiserver.Config, cfg Config,
	resourceOf admissionregistration.ResourceOf, identities identities, answering *onCreate) error {
	var codecs runtime.NegotiatedSerializer = api.NewCodecs(cfg.API.cbor())
	if cfg.Objects != nil {
		passing := handles.NewSerializer(codecs, cfg.Objects)
		codecs = passing
		defer passing.Offer()
	}
	legacy, err := coreGroups(config.RESTOptionsGetter, identities)
	if err != nil {
		return err
	}
	access, err := accessGroups(config, identities)
	if err != nil {
		return err
	}
	certificatesGroup, err := certificates.NewAPIGroup(certificates.Options{
		RESTOptions:   config.RESTOptionsGetter,
		ServeV1beta1:  cfg.API.servesV1beta1(),
		ServeV1alpha1: cfg.API.servesV1alpha1(),
		CSRDuration:   cfg.API.csrDuration(),
		Now:           cfg.Clock.Now,
		MaySign:       admission.MaySign(config.Authorization.Authorizer),
	})
	if err != nil {
		return err
	}
	answering.serves(&certificatesGroup, certificatesv1.SchemeGroupVersion.Version)
	admissionGroup, err := admissionregistration.NewAPIGroup(admissionregistration.Options{
		RESTOptions: config.RESTOptionsGetter,
		Authorizer:  config.Authorization.Authorizer,
		ResourceOf:  resourceOf,
	})
	if err != nil {
		return err
	}
	groups := append(access, legacy[1:]...)
	groups = append(groups, certificatesGroup, admissionGroup)
	if cfg.Storage.Records != nil {
		groups = append(groups, inventory.NewAPIGroup(cfg.Storage.Records))
	}

	// The library chooses the formats by a process-wide feature gate.
	legacy[0].NegotiatedSerializer = codecs
	if err := server.InstallLegacyAPIGroup(genericapiserver.DefaultLegacyAPIPrefix, &legacy[0]); err != nil {
		return fmt.Errorf("installing the core API group: %w", err)
	}
	var infos []*genericapiserver.APIGroupInfo
	for i := range groups {
		groups[i].NegotiatedSerializer = codecs
		infos = append(infos, &groups[i])
	}
	if err := server.InstallAPIGroups(infos...); err != nil {
		return fmt.Errorf("installing the API groups: %w", err)
	}
	return nil
}

// coreGroups returns the core group, which has a path of its own, and the
// groups that are served with it.
func coreGroups(storage generic.RESTOptionsGetter, identities identities) ([]genericapiserver.APIGroupInfo, error) {
	coordinationGroup, err := coordination.NewAPIGroup(coordination.Options{RESTOptions: storage})
	if err != nil {
		return nil, err
	}
	eventStorage, err := events.NewStorage(storage)
	if err != nil {
		return nil, err
	}
	coreGroup, err := core.NewAPIGroup(core.Options{
		RESTOptions: storage, Events: eventStorage, ServiceAccountToken: identities.tokenRequests,
	})
	if err != nil {
		return nil, err
	}
	return []genericapiserver.APIGroupInfo{coreGroup, coordinationGroup, events.NewAPIGroup(eventStorage)}, nil
}

// accessGroups returns the groups for authentication and authorization.
func accessGroups(config *genericapiserver.Config, identities identities) ([]genericapiserver.APIGroupInfo, error) {
	authz := config.Authorization.Authorizer
	authenticationGroup, err := authentication.NewAPIGroup(authentication.Options{
		Tokens: identities.tokens, Audiences: identities.audiences,
	})
	if err != nil {
		return nil, err
	}
	authorizationGroup, err := authorization.NewAPIGroup(authorization.Options{Authorizer: authz, Rules: config.RuleResolver})
	if err != nil {
		return nil, err
	}
	rbacGroup, err := rbac.NewAPIGroup(rbac.Options{RESTOptions: config.RESTOptionsGetter, Authorizer: authz})
	if err != nil {
		return nil, err
	}
	return []genericapiserver.APIGroupInfo{authenticationGroup, authorizationGroup, rbacGroup}, nil
}
