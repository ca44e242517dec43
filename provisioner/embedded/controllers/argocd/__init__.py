"""What the Platform's Argo CD integration and Argo CD itself do together for an ArgoCDApplication object.

Sources in the delivery repository are read and applied for real. Every other source (a chart repository: GPU operator,
CNI, KEDA …) cannot run on a laptop and is *played*: reported Synced and Healthy, with a condition that says so.
"""
