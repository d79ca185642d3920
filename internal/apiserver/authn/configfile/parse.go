package configfile

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	"k8s.io/apiserver/pkg/authentication/cel"
)

// parse parses a configuration of any version. Errors contain the field.
func parse(data []byte, ownIssuers []string) (*apiserver.AuthenticationConfiguration, error) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	codecs := serializer.NewCodecFactory(scheme, serializer.EnableStrict)
	decoded, kind, err := codecs.UniversalDecoder().Decode(data, nil, nil)
	if err != nil {
		return nil, err
	}
	config, ok := decoded.(*apiserver.AuthenticationConfiguration)
	if !ok {
		return nil, fmt.Errorf("kind is %s, must be AuthenticationConfiguration", kind.Kind)
	}
	errs := validation.ValidateAuthenticationConfiguration(cel.NewDefaultCompiler(), config, ownIssuers)
	return config, append(errs, validateEgress(config)...).ToAggregate()
}

// validateEgress refuses settings that need an egress proxy: the server does
// not support one.
func validateEgress(config *apiserver.AuthenticationConfiguration) field.ErrorList {
	var errs field.ErrorList
	for i, jwt := range config.JWT {
		if jwt.Issuer.EgressSelectorType != "" {
			path := field.NewPath("jwt").Index(i).Child("issuer", "egressSelectorType")
			errs = append(errs, field.Forbidden(path, "the server connects to issuers directly"))
		}
	}
	return errs
}
