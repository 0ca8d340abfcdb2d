// Package kubecheck holds manifests for Kubernetes to the types that Kubernetes publishes: each
// document is decoded strictly, so that an unknown or misplaced key and a value of a wrong type
// are found, and names that one part gives and another uses must agree. It asks no cluster, so
// it does not find what only a server refuses. It is a module of its own, so that these types
// are no dependency of the product.
package kubecheck

import (
	"bytes"
	"errors"
	"fmt"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Check returns what is wrong with the documents of a file.
func Check(file []byte) error {
	var wrong []error
	sets, services := 0, []core.Service{}
	var labels []map[string]string
	for i, doc := range bytes.Split(file, []byte("\n---\n")) {
		var of struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal(doc, &of); err != nil {
			wrong = append(wrong, fmt.Errorf("document %d: %w", i+1, err))
			continue
		}
		var err error
		switch of.APIVersion + " " + of.Kind {
		case "apps/v1 StatefulSet":
			var s apps.StatefulSet
			if err = decode(doc, &s); err == nil {
				err = statefulSet(&s)
			}
			sets, labels = sets+1, append(labels, s.Spec.Template.Labels)
		case "v1 Service":
			var s core.Service
			err = decode(doc, &s)
			services = append(services, s)
		default:
			err = errors.New("add its type to kubecheck")
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("document %d, %s: %w", i+1, of.Kind, err))
		}
	}
	for i := range services {
		s := &services[i]
		found := false
		for _, l := range labels {
			found = found || within(s.Spec.Selector, l)
		}
		if !found || len(s.Spec.Ports) == 0 {
			wrong = append(wrong, fmt.Errorf("service %s has no port, or selects no pod", s.Name))
		}
	}
	if sets == 0 {
		wrong = append(wrong, errors.New("there is no StatefulSet"))
	}
	return errors.Join(wrong...)
}

// decode decodes a document as the server of Kubernetes does when it validates strictly.
func decode(doc []byte, to any) error {
	text, err := yaml.YAMLToJSONStrict(doc)
	if err != nil {
		return err
	}
	strict, err := json.UnmarshalStrict(text, to)
	return errors.Join(append(strict, err)...)
}

func within(part, whole map[string]string) bool {
	for k, v := range part {
		if whole[k] != v {
			return false
		}
	}
	return len(part) > 0
}

// statefulSet checks the names inside of a set.
func statefulSet(s *apps.StatefulSet) error {
	var wrong []error
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	if s.Spec.Selector == nil || !within(s.Spec.Selector.MatchLabels, s.Spec.Template.Labels) {
		add("the selector is not in the labels of the pods")
	}
	volumes := map[string]bool{}
	for _, v := range s.Spec.Template.Spec.Volumes {
		volumes[v.Name] = true
	}
	for _, v := range s.Spec.VolumeClaimTemplates {
		volumes[v.Name] = true
		if len(v.Spec.AccessModes) == 0 || v.Spec.Resources.Requests.Storage().IsZero() {
			add("claim %s has no access mode or no size", v.Name)
		}
	}
	if len(s.Spec.Template.Spec.Containers) == 0 {
		add("there is no container")
	}
	for i := range s.Spec.Template.Spec.Containers {
		c := &s.Spec.Template.Spec.Containers[i]
		if c.Name == "" || c.Image == "" {
			add("container %d has no name or no image", i+1)
		}
		ports := map[string]bool{}
		for _, p := range c.Ports {
			ports[p.Name] = true
		}
		for name, p := range map[string]*core.Probe{"startupProbe": c.StartupProbe, "livenessProbe": c.LivenessProbe, "readinessProbe": c.ReadinessProbe} {
			switch {
			case p == nil || p.HTTPGet == nil:
				add("container %s has no %s over HTTP", c.Name, name)
			case p.HTTPGet.Port.Type == intstr.String && !ports[p.HTTPGet.Port.StrVal]:
				add("%s of container %s asks the unknown port %s", name, c.Name, p.HTTPGet.Port.StrVal)
			}
		}
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] {
				add("container %s mounts the unknown volume %s", c.Name, m.Name)
			}
		}
	}
	return errors.Join(wrong...)
}
