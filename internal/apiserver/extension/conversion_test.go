package extension_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/certplane/certplane/internal/apitest"
)

// converted adds a version v2 with a conversion webhook.
func converted(by apiextensionsv1.WebhookClientConfig) func(*apiextensionsv1.CustomResourceDefinition) {
	return func(crd *apiextensionsv1.CustomResourceDefinition) {
		v2 := *crd.Spec.Versions[0].DeepCopy()
		v2.Name, v2.Storage = "v2", false
		crd.Spec.Versions = append(crd.Spec.Versions, v2)
		crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
			Strategy: apiextensionsv1.WebhookConverter,
			Webhook:  &apiextensionsv1.WebhookConversion{ClientConfig: &by, ConversionReviewVersions: []string{"v1"}},
		}
	}
}

// paints have a v2, where "colour" is what v1 calls "color".
func paints(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	url, ca := apitest.Webhook(t, http.HandlerFunc(convertColor))
	return definition("paints", "Paint", "conversion.example.com", converted(apiextensionsv1.WebhookClientConfig{URL: &url, CABundle: ca}))
}

func (w *world) testConversion(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) {
	create(t, w.resource(crd, "v2"), object(t, `{apiVersion: conversion.example.com/v2, kind: Paint, metadata: {name: sky}, spec: {colour: blue}}`))
	got, err := w.resource(crd, "v1").Get(t.Context(), "sky", metav1.GetOptions{})
	if err != nil || at(got, "spec", "color") != "blue" {
		t.Errorf("as v1: %v, %v", got, err)
	}
	if got, err = w.resource(crd, "v2").Get(t.Context(), "sky", metav1.GetOptions{}); err != nil || at(got, "spec", "colour") != "blue" {
		t.Errorf("as v2: %v, %v", got, err)
	}
}

func convertColor(rw http.ResponseWriter, req *http.Request) {
	var review apiextensionsv1.ConversionReview
	if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	review.Response = &apiextensionsv1.ConversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	from, to := "color", "colour"
	if strings.HasSuffix(review.Request.DesiredAPIVersion, "/v1") {
		from, to = to, from
	}
	for _, raw := range review.Request.Objects {
		obj := &unstructured.Unstructured{}
		if err := json.Unmarshal(raw.Raw, &obj.Object); err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		obj.SetAPIVersion(review.Request.DesiredAPIVersion)
		if spec, ok := obj.Object["spec"].(map[string]any); ok {
			spec[to] = spec[from]
			delete(spec, from)
		}
		review.Response.ConvertedObjects = append(review.Response.ConvertedObjects, runtime.RawExtension{Object: obj})
	}
	review.Request = nil
	json.NewEncoder(rw).Encode(review)
}

func calls() *apiextensionsv1.CustomResourceDefinition {
	by := apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{Namespace: "default", Name: "converter"}}
	return definition("calls", "Call", "services.example.com", converted(by))
}

// testConversionByService checks the error for a conversion webhook that cannot
// be reached.
func (w *world) testConversionByService(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) {
	_, err := w.resource(crd, "v2").Create(t.Context(),
		object(t, `{apiVersion: services.example.com/v2, kind: Call, metadata: {name: one}}`), metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), "set clientConfig.url instead of clientConfig.service") {
		t.Errorf("err = %v", err)
	}
}
