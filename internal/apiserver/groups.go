package apiserver

import (
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/certplane/certplane/internal/admission"
	"github.com/certplane/certplane/internal/api"
	"github.com/certplane/certplane/internal/apiserver/registry/admissionregistration"
	"github.com/certplane/certplane/internal/apiserver/registry/authentication"
	"github.com/certplane/certplane/internal/apiserver/registry/authorization"
	"github.com/certplane/certplane/internal/apiserver/registry/certificates"
	"github.com/certplane/certplane/internal/apiserver/registry/coordination"
	"github.com/certplane/certplane/internal/apiserver/registry/core"
	"github.com/certplane/certplane/internal/apiserver/registry/events"
	"github.com/certplane/certplane/internal/apiserver/registry/inventory"
	"github.com/certplane/certplane/internal/apiserver/registry/rbac"
	"github.com/certplane/certplane/internal/inprocess/objectpass"
)

// installGroups adds every served API group to server.
func (a *assembly) installGroups(server *genericapiserver.GenericAPIServer, resourceOf admissionregistration.ResourceOf) error {
	identities := newIdentities(a.Config, a.who, a.client)
	var codecs runtime.NegotiatedSerializer = api.NewCodecs(a.API.cbor())
	if a.Objects != nil {
		passing := objectpass.NewSerializer(codecs, a.Objects)
		codecs = passing
		defer passing.Offer()
	}
	legacy, err := coreGroups(a.generic.RESTOptionsGetter, identities)
	if err != nil {
		return err
	}
	access, err := accessGroups(a.generic, identities)
	if err != nil {
		return err
	}
	certificatesGroup, err := certificates.NewAPIGroup(certificates.Options{
		RESTOptions:   a.generic.RESTOptionsGetter,
		ServeV1beta1:  a.API.servesV1beta1(),
		ServeV1alpha1: a.API.servesV1alpha1(),
		CSRDuration:   a.API.csrDuration(),
		Now:           a.Clock.Now,
		MaySign:       admission.MaySign(a.generic.Authorization.Authorizer),
	})
	if err != nil {
		return err
	}
	a.answering.serves(&certificatesGroup, certificatesv1.SchemeGroupVersion.Version)
	admissionGroup, err := admissionregistration.NewAPIGroup(admissionregistration.Options{
		RESTOptions: a.generic.RESTOptionsGetter,
		Authorizer:  a.generic.Authorization.Authorizer,
		ResourceOf:  resourceOf,
	})
	if err != nil {
		return err
	}
	groups := append(access, legacy[1:]...)
	groups = append(groups, certificatesGroup, admissionGroup)
	if a.Storage.Records != nil {
		groups = append(groups, inventory.NewAPIGroup(a.Storage.Records, inventory.Signing{CA: listedCA(knownCAs(a.client, a.who)), Held: heldLists(a.client)}))
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

// coreGroups returns the core group, whose path differs from that of other groups, and the
// groups served with it.
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
