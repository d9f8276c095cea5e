"""Webhooks that see writes before they are stored: who is asked, how, and what answers mean.

Sources: apiserver pkg/admission/plugin/webhook; admission.k8s.io/v1 `AdmissionReview`.
"""
