"""Initialisations that neither amplify nor damp."""
