package events

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
)

// Fields returns the fields that field selectors support, in addition to names and
// namespaces.
func Fields(event *corev1.Event) fields.Set {
	source := event.Source.Component
	if source == "" {
		source = event.ReportingController
	}
	return fields.Set{
		"involvedObject.kind":            event.InvolvedObject.Kind,
		"involvedObject.namespace":       event.InvolvedObject.Namespace,
		"involvedObject.name":            event.InvolvedObject.Name,
		"involvedObject.uid":             string(event.InvolvedObject.UID),
		"involvedObject.apiVersion":      event.InvolvedObject.APIVersion,
		"involvedObject.resourceVersion": event.InvolvedObject.ResourceVersion,
		"involvedObject.fieldPath":       event.InvolvedObject.FieldPath,
		"reason":                         event.Reason,
		"reportingComponent":             event.ReportingController,
		"source":                         source,
		"type":                           event.Type,
	}
}

// addFieldLabels registers the fields under the names that each group uses.
func addFieldLabels(scheme *runtime.Scheme) error {
	err := scheme.AddFieldLabelConversionFunc(corev1.SchemeGroupVersion.WithKind("Event"), checkFieldLabel)
	if err != nil {
		return err
	}
	return scheme.AddFieldLabelConversionFunc(eventsv1.SchemeGroupVersion.WithKind("Event"), func(label, value string) (string, string, error) {
		if field, ok := strings.CutPrefix(label, "regarding."); ok {
			return checkFieldLabel("involvedObject."+field, value)
		}
		if label == "reportingController" {
			label = "reportingComponent"
		}
		return checkFieldLabel(label, value)
	})
}

func checkFieldLabel(label, value string) (string, string, error) {
	if Fields(&corev1.Event{}).Has(label) || label == "metadata.name" || label == "metadata.namespace" {
		return label, value, nil
	}
	return "", "", fmt.Errorf("field label not supported: %s", label)
}
