package extension

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apiextensions-apiserver/pkg/features"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kube-openapi/pkg/cached"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"
)

// publishDefined adds the documents of the defined groups to those of the built-in ones, and
// follows the definitions. The library's controller builds all documents at each start, twice,
// and keeps them. Here the document of a group is built when a client first requests it.
func (s *Server) publishDefined(documents *handler3.OpenAPIService) error {
	publisher := documentPublisher{to: documents, published: map[string]bool{}}
	_, err := s.followDefinitions(publisher.publish)
	return err
}

// documentPublisher keeps the documents of groups in sync with the definitions.
type documentPublisher struct {
	to *handler3.OpenAPIService
	// published are the paths of the documents. Others are not deleted.
	published map[string]bool
}

// publish updates the documents of the versions of a definition; all are the definitions that
// exist.
func (p documentPublisher) publish(definition *apiextensionsv1.CustomResourceDefinition, all []*apiextensionsv1.CustomResourceDefinition) {
	for _, v := range definition.Spec.Versions {
		gv := schema.GroupVersion{Group: definition.Spec.Group, Version: v.Name}
		path := "apis/" + gv.String()
		if serving := servingIn(gv, all); len(serving) > 0 {
			p.to.UpdateGroupVersionLazy(path, cached.Once(cached.Func(func() (*spec3.OpenAPI, string, error) { return describe(gv, serving) })))
			p.published[path] = true
		} else if p.published[path] {
			p.to.DeleteGroupVersion(path)
			delete(p.published, path)
		}
	}
}

// servingIn returns the definitions whose resources are served in a version, by their names.
func servingIn(gv schema.GroupVersion, definitions []*apiextensionsv1.CustomResourceDefinition) []*apiextensionsv1.CustomResourceDefinition {
	var serving []*apiextensionsv1.CustomResourceDefinition
	for _, definition := range definitions {
		served := func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == gv.Version && v.Served }
		if definition.Spec.Group == gv.Group && apihelpers.IsCRDConditionTrue(definition, apiextensionsv1.Established) &&
			slices.ContainsFunc(definition.Spec.Versions, served) {
			serving = append(serving, definition)
		}
	}
	slices.SortFunc(serving, func(a, b *apiextensionsv1.CustomResourceDefinition) int { return strings.Compare(a.Name, b.Name) })
	return serving
}

// describe returns the document of a version of a group, and a text that differs for each
// state of the definitions. A definition that cannot be described is omitted.
func describe(gv schema.GroupVersion, definitions []*apiextensionsv1.CustomResourceDefinition) (*spec3.OpenAPI, string, error) {
	options := builder.Options{IncludeSelectableFields: utilfeature.DefaultFeatureGate.Enabled(features.CustomResourceFieldSelectors)}
	var documents []*spec3.OpenAPI
	var state strings.Builder
	for _, definition := range definitions {
		fmt.Fprintf(&state, "%s %s,", definition.UID, definition.ResourceVersion)
		document, err := builder.BuildOpenAPIV3(definition, gv.Version, options)
		if err != nil {
			utilruntime.HandleError(fmt.Errorf("describing %s in OpenAPI v3: %w", definition.Name, err))
			continue
		}
		documents = append(documents, document)
	}
	merged, err := builder.MergeSpecsV3(documents...)
	if err != nil {
		return nil, "", fmt.Errorf("describing %s in OpenAPI v3: %w", gv, err)
	}
	return merged, state.String(), nil
}
