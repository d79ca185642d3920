package apiserver

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/certplane/certplane/internal/api"
	"github.com/certplane/certplane/internal/registry/admissionregistration"
	"github.com/certplane/certplane/internal/registry/authentication"
	"github.com/certplane/certplane/internal/registry/authorization"
	"github.com/certplane/certplane/internal/registry/certificates"
	"github.com/certplane/certplane/internal/registry/coordination"
	"github.com/certplane/certplane/internal/registry/core"
	"github.com/certplane/certplane/internal/registry/events"
	"github.com/certplane/certplane/internal/registry/rbac"
)

// installGroups adds every served API group to server.
func installGroups(server *genericapiserver.GenericAPIServer, config *genericapiserver.Config, cfg APIConfig,
	resourceOf admissionregistration.ResourceOf, identities identities) error {
	codecs := api.NewCodecs(cfg.cbor())
	legacy, err := coreGroups(config.RESTOptionsGetter, codecs, identities)
	if err != nil {
		return err
	}
	access, err := accessGroups(config, codecs, identities)
	if err != nil {
		return err
	}
	certificatesGroup, err := certificates.NewAPIGroup(certificates.Options{
		RESTOptions:  config.RESTOptionsGetter,
		Codecs:       codecs,
		ServeV1beta1: cfg.servesCSRv1beta1(),
		CSRDuration:  cfg.csrDuration(),
	})
	if err != nil {
		return err
	}
	admissionGroup, err := admissionregistration.NewAPIGroup(admissionregistration.Options{
		RESTOptions: config.RESTOptionsGetter,
		Codecs:      codecs,
		Authorizer:  config.Authorization.Authorizer,
		ResourceOf:  resourceOf,
	})
	if err != nil {
		return err
	}
	groups := append(access, legacy[1:]...)
	groups = append(groups, certificatesGroup, admissionGroup)

	// The library chooses the formats by a feature gate of the whole process.
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

// coreGroups are the core group, which has a path of its own, and the groups
// that stand beside it.
func coreGroups(storage generic.RESTOptionsGetter, codecs serializer.CodecFactory, identities identities) ([]genericapiserver.APIGroupInfo, error) {
	coordinationGroup, err := coordination.NewAPIGroup(coordination.Options{RESTOptions: storage, Codecs: codecs})
	if err != nil {
		return nil, err
	}
	eventStorage, err := events.NewStorage(storage)
	if err != nil {
		return nil, err
	}
	coreGroup, err := core.NewAPIGroup(core.Options{
		RESTOptions: storage, Codecs: codecs, Events: eventStorage, ServiceAccountToken: identities.tokenRequests,
	})
	if err != nil {
		return nil, err
	}
	return []genericapiserver.APIGroupInfo{coreGroup, coordinationGroup, events.NewAPIGroup(eventStorage, codecs)}, nil
}

// accessGroups are about who is who and who may do what.
func accessGroups(config *genericapiserver.Config, codecs serializer.CodecFactory, identities identities) ([]genericapiserver.APIGroupInfo, error) {
	authz := config.Authorization.Authorizer
	authenticationGroup, err := authentication.NewAPIGroup(authentication.Options{
		Codecs: codecs, Tokens: identities.tokens, Audiences: identities.audiences,
	})
	if err != nil {
		return nil, err
	}
	authorizationGroup, err := authorization.NewAPIGroup(authorization.Options{Codecs: codecs, Authorizer: authz, Rules: config.RuleResolver})
	if err != nil {
		return nil, err
	}
	rbacGroup, err := rbac.NewAPIGroup(rbac.Options{RESTOptions: config.RESTOptionsGetter, Codecs: codecs, Authorizer: authz})
	if err != nil {
		return nil, err
	}
	return []genericapiserver.APIGroupInfo{authenticationGroup, authorizationGroup, rbacGroup}, nil
}
